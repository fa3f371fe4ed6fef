import { describe, expect, it } from 'vitest';
import type { Json, JsonObject } from '../../event/event.ts';
import { contractWith, fieldsOf, times, trackEvent } from '../contracts.fixture.ts';
import { createContractEvaluator, createLightEvaluator } from '../evaluator.ts';
import { checkSchema, compileSchema } from './compile-schema.ts';

const contractOf = (id: string, schema_definition: JsonObject) =>
  contractWith({ id, schema_definition, undeclared_fields: 'omit' });

describe('compiling blocked the thread for seconds', () => {
  const words = (of: number) => times(40, (at) => `w${(at * 7_919 + of * 104_729).toString(36)}`).join('|');
  const properties = (count: number, schemaAt: (at: number) => Json) => ({
    properties: fieldsOf(count, schemaAt),
  });
  const tooMuch: readonly [string, JsonObject][] = [
    [
      '300 patterns of 40 words',
      { patternProperties: Object.fromEntries(times(300, (at) => [`^(${words(at)})$`, {}])) },
    ],
    ['990 short patterns', { allOf: times(990, (at) => ({ pattern: `^a${at}.*b$` })) }],
    ['500 patterns of many states', { allOf: times(500, (at) => ({ pattern: `(a|b)*a(a|b){9}${at}` })) }],
    ['400 patterns of all letters', { allOf: times(400, (at) => ({ pattern: `\\p{L}\\S\\p{N}${at}` })) }],
    [
      'hundreds of properties with as many keywords as there are',
      properties(700, () => ({
        ...{ type: ['string', 'array'], minLength: 1, maxLength: 9, minimum: 0, maximum: 5, multipleOf: 2 },
        ...{ minItems: 1, uniqueItems: true, format: 'date', enum: ['a', 'b'] },
      })),
    ],
    [
      'names asked for in hundreds of schemas',
      { allOf: times(900, (at) => ({ required: [`a${at}`, 'b', 'c', 'd'] })) },
    ],
    [
      'names beside others by the thousand',
      { dependentRequired: fieldsOf(60, () => times(90, (at) => `n${at}`)) },
    ],
    ['hundreds of alternatives', { oneOf: times(990, (at) => ({ const: at })) }],
  ];

  it.each(tooMuch)('%s are refused before they are compiled', (_, definition) => {
    expect(checkSchema(definition).map(({ message }) => message)).toContainEqual(
      expect.stringMatching(/must be smaller: its schemas, keywords, names and patterns/),
    );
  });

  it.each(tooMuch.slice(1))(
    '%s of a contract stored by an earlier release are still evaluated',
    (_, definition) => {
      const { schema, faults } = compileSchema(definition);
      expect(faults).toEqual([]);
      expect(schema?.weight).toBeGreaterThan(2 * 1024 * 1024);
    },
  );

  it.each<[string, JsonObject]>([
    ['the properties of a large contract', properties(990, () => ({ type: 'string' }))],
    ['a hundred patterns', properties(100, (at) => ({ type: 'string', pattern: `^[A-Z]{${at + 1}}-\\d+$` }))],
    ['500 enums', properties(500, (at) => ({ enum: times(20, (n) => `${at}_${n}`) }))],
    [
      'unevaluated properties over 200 alternatives',
      {
        anyOf: times(200, (at) => ({ properties: { [`a${at}`]: { type: 'string' } } })),
        unevaluatedProperties: false,
      },
    ],
    ['a chain of names in one list', { required: times(3_000, (at) => `n${at}`) }],
  ])('but %s may be', (_, definition) => {
    expect(checkSchema(definition)).toEqual([]);
    const { schema } = compileSchema(definition);
    expect(schema?.weight).toBeLessThan(8 * 1024 * 1024);
  });

  it('the evaluator for threads that must not block leaves heavy contracts to a worker, and gives light ones the same verdict', () => {
    const light = createLightEvaluator();
    const { evaluate } = createContractEvaluator();
    const event = trackEvent({ f1: 1, plan: 3 });
    const small = contractOf(
      'small',
      properties(20, () => ({ type: 'string', maxLength: 3 })),
    );
    expect(light(small, event)).toEqual(evaluate(small, event));
    for (const definition of [
      properties(400, () => ({ type: 'string' })),
      { description: 'x'.repeat(20_000) },
    ])
      expect(light(contractOf('large', definition), event)).toBeUndefined();
  });
});
