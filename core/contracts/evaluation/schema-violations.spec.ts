import { describe, expect, it } from 'vitest';
import type { Json, JsonObject } from '../../event/event.ts';
import { MAX_VIOLATIONS } from '../violation.ts';
import { compileSchema } from './compile-schema.ts';
import { MAX_PATH_LENGTH, violationsOf } from './schema-violations.ts';

function violations(definition: JsonObject, subject: JsonObject) {
  const { schema, faults } = compileSchema(definition);
  if (schema === undefined) throw new Error(JSON.stringify(faults));
  schema.meter.reset();
  return violationsOf(schema.checker.errors(subject), schema.checker);
}

describe('the kind and message of a violation', () => {
  it.each<[JsonObject, Json, string, string]>([
    [{ type: 'string' }, 1, 'type', 'must be a string'],
    [{ type: ['integer', 'null'] }, 'x', 'type', 'must be an integer or null'],
    [{ enum: ['red', 2, null] }, 'blue', 'enum', 'must be one of "red", 2, null'],
    [{ const: 'red' }, 'blue', 'enum', 'must be "red"'],
    [{ format: 'email' }, 'x', 'format', 'must have the format email'],
    [{ pattern: '^[a-z]+$' }, 'X', 'pattern', 'must match the pattern ^[a-z]+$'],
    [{ minimum: 3 }, 2, 'bounds', 'must be at least 3'],
    [{ exclusiveMaximum: 3 }, 3, 'bounds', 'must be less than 3'],
    [{ multipleOf: 3 }, 4, 'bounds', 'must be a multiple of 3'],
    [{ maxLength: 3 }, 'xxxx', 'bounds', 'must have at most 3 characters'],
    [{ minItems: 2 }, [1], 'bounds', 'must have at least 2 items'],
    [{ prefixItems: [true], items: false }, [1, 2], 'bounds', 'must have at most 1 items'],
    [
      { uniqueItems: true },
      [
        { a: 1, b: 2 },
        { b: 2, a: 1 },
      ],
      'bounds',
      'must have no two items alike',
    ],
    [{ maxProperties: 0 }, { a: 1 }, 'bounds', 'must have at most 0 fields'],
    [{ not: { type: 'string' } }, 'x', 'schema', 'has a value that is not allowed'],
    [{ contains: { type: 'string' } }, [1], 'schema', 'must contain at least 1 items of the kind asked for'],
    [{ oneOf: [{ minimum: 1 }, { minimum: 2 }] }, 3, 'schema', 'must match exactly one of the alternatives'],
  ])('%j against %j: %s', (definition, value, kind, message) => {
    expect(violations({ properties: { field: definition } }, { field: value })).toEqual([
      { kind, path: '/field', message },
    ]);
  });

  it('never shows the value', () => {
    const definition = {
      properties: { email: { type: 'string', format: 'email', maxLength: 5, enum: ['a'], const: 'b' } },
    };
    const found = JSON.stringify(violations(definition, { email: 'secret person' }));
    expect(found).not.toContain('secret');
    expect(found).not.toContain('person');
  });
});

describe('where a violation is', () => {
  it.each<[string, JsonObject, JsonObject, string, string]>([
    ['the missing field', { required: ['a/b'] }, {}, 'required', '/a~1b'],
    ['the field missed by another', { dependentRequired: { a: ['b'] } }, { a: 1 }, 'required', '/b'],
    ['the extra field', { properties: {}, additionalProperties: false }, { 'x~y': 1 }, 'undeclared', '/x~0y'],
    [
      'the extra field',
      { properties: { a: {} }, unevaluatedProperties: false },
      { x: 1 },
      'undeclared',
      '/x',
    ],
    ['the field with a bad name', { propertyNames: { pattern: '^[a-z]+$' } }, { A1: 1 }, 'schema', '/A1'],
    [
      'the item',
      { properties: { a: { items: { required: ['b'] } } } },
      { a: [{ b: 1 }, {}] },
      'required',
      '/a/1/b',
    ],
  ])('%s', (_, definition, subject, kind, path) => {
    expect(violations(definition, subject).map((violation) => [violation.kind, violation.path])).toEqual([
      [kind, path],
    ]);
  });

  it('is cut when a field has an endless name', () => {
    const [violation] = violations({ additionalProperties: false }, { ['x'.repeat(30_000)]: 1 });
    expect(violation?.path).toHaveLength(MAX_PATH_LENGTH + 1);
  });
});

describe('alternatives that all fail', () => {
  it('are one violation, not one for each', () => {
    const either = { anyOf: [{ required: ['email'] }, { required: ['phone'] }] };
    expect(violations(either, {})).toEqual([
      { kind: 'schema', path: '', message: 'must match one of the alternatives' },
    ]);
  });

  it('are a violation of the type when they differ in type', () => {
    const optional = { properties: { a: { anyOf: [{ type: 'string', maxLength: 2 }, { type: 'null' }] } } };
    expect(violations(optional, { a: 1 })).toEqual([
      { kind: 'type', path: '/a', message: 'must be a string or null' },
    ]);
    expect(violations(optional, { a: 'long' })).toMatchObject([{ kind: 'schema', path: '/a' }]);
  });

  it('leave it to the branch when there was a condition', () => {
    // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
    const paid = { if: { properties: { paid: { const: true } } }, then: { required: ['amount'] } };
    expect(violations(paid, { paid: true })).toEqual([
      { kind: 'required', path: '/amount', message: 'is required' },
    ]);
  });
});

describe('the violations of one event', () => {
  it('are recorded once for each kind and path', () => {
    const twice = { allOf: [{ required: ['a'] }, { required: ['a'] }] };
    expect(violations(twice, {})).toHaveLength(1);
  });

  it('come in the same order every time, and in a bounded number', () => {
    const definition = { properties: { list: { items: { type: 'string' } } } };
    const found = violations(definition, { list: Array(2_000).fill(1) });
    expect(found).toHaveLength(MAX_VIOLATIONS);
    expect(found.map((violation) => violation.path)).toEqual(found.map((_, at) => `/list/${at}`));
  });
});
