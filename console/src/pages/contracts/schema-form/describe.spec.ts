import { describe, expect, it } from 'vitest';
import { choiceOf, summaryOf, typesOfChoice } from './describe.ts';
import { TYPES } from './model.ts';
import { schemaToForm } from './read.ts';

describe('the type of a field, in a line', () => {
  it.each([
    [{ type: 'string' }, ''],
    [{ format: 'email', minLength: 3, maxLength: 20 }, 'email · 3 to 20 characters'],
    [{ minimum: 0 }, 'at least 0'],
    [{ enum: ['a', 'b'] }, 'one of a, b'],
    [{ enum: [1, 2, 3, 4, 5] }, 'one of 5 values'],
    [{ maxItems: 3, uniqueItems: true }, 'at most 3 items · no item twice'],
    [{ anyOf: [], 'x-team': 1, description: 'Why' }, 'also anyOf, x-team · Why'],
    [{ additionalProperties: false, pattern: '^a' }, 'matches ^a · no other fields'],
  ])('%j', (schema, text) => {
    expect(summaryOf(schemaToForm(schema))).toBe(text);
  });
});

it('a choice of types is written back unchanged', () => {
  expect(typesOfChoice('')).toEqual([]);
  for (const type of TYPES) expect(typesOfChoice(choiceOf([type]))).toEqual([type]);
  expect(typesOfChoice(choiceOf(['string', 'null']))).toEqual(['string', 'null']);
});
