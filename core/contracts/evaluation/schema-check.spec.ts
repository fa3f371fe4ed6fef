import { Ajv } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Json, JsonObject } from '../../event/event.ts';
import { compiled, violationsOf } from '../contracts.fixture.ts';
import { MAX_VIOLATIONS } from '../violation.ts';
import { MAX_PATH_LENGTH } from './schema-check.ts';

const NAMES = ['a', 'b', 'constructor', 'x y'];
const TEXTS = ['', 'a', 'ab', 'abc', '💥', 'a@b.co', '2026-03-01', '2026-03-01T00:00:00Z', 'https://a.b/c'];
const NUMBERS = [0, 1, -1, 1.5, 0.3, 10, 1e300, Number.POSITIVE_INFINITY];

const scalar = fc.constantFrom<Json[]>(null, true, false, ...TEXTS, ...NUMBERS);

const { value } = fc.letrec<{ value: Json; list: Json; object: Json }>((tie) => ({
  value: fc.oneof({ maxDepth: 3, withCrossShrink: true }, scalar, tie('list'), tie('object')),
  list: fc.array(tie('value'), { maxLength: 4 }),
  object: fc.dictionary(fc.constantFrom(...NAMES), tie('value')).map((fields) => ({ ...fields })),
}));

const TYPES = ['null', 'boolean', 'integer', 'number', 'string', 'array', 'object'];

const assertions: Readonly<Record<string, fc.Arbitrary<Json>>> = {
  type: fc.oneof(
    fc.constantFrom(...TYPES),
    fc.uniqueArray(fc.constantFrom(...TYPES), { minLength: 1, maxLength: 4 }),
  ),
  enum: fc.uniqueArray(value, { minLength: 1, maxLength: 4, selector: (each) => JSON.stringify(each) }),
  const: value,
  minimum: fc.constantFrom(-1, 0, 1, 1.5),
  maximum: fc.constantFrom(-1, 0, 1, 1.5),
  exclusiveMinimum: fc.constantFrom(-1, 0, 1),
  exclusiveMaximum: fc.constantFrom(0, 1, 1.5),
  minLength: fc.constantFrom(0, 1, 2),
  maxLength: fc.constantFrom(0, 1, 2, 10),
  pattern: fc.constantFrom('^a', 'b$', '^[a-z]*$'),
  format: fc.constantFrom('date', 'date-time', 'email', 'uri', 'uuid'),
  minItems: fc.constantFrom(0, 1, 2),
  maxItems: fc.constantFrom(0, 1, 2),
  uniqueItems: fc.boolean(),
  required: fc.uniqueArray(fc.constantFrom(...NAMES), { maxLength: 2 }),
  minProperties: fc.constantFrom(0, 1, 2),
  maxProperties: fc.constantFrom(0, 1, 2),
  title: fc.constant('says nothing'),
};

/** A schema of a few keywords. */
const some = fc
  .subarray(Object.entries(assertions), { maxLength: 3 })
  .chain((kept) => fc.record(Object.fromEntries(kept)))
  .map((keywords): JsonObject => ({ ...keywords }));

/**
 * Says again that the list has an item: within `items`, ajv takes an empty list for what it found of the list before.
 */
function containing(own: JsonObject, contains: Json): JsonObject {
  const { minItems } = own;
  return { ...own, contains, minItems: Math.max(1, typeof minItems === 'number' ? minItems : 0) };
}

const KINDS = ['leaf', 'object', 'list', 'either', 'condition', 'reference'] as const;
const { schema } = fc.letrec<Record<'schema' | (typeof KINDS)[number], Json>>((tie) => ({
  schema: fc.oneof({ maxDepth: 3, withCrossShrink: true }, ...KINDS.map((kind) => tie(kind))),
  leaf: fc.oneof(some, fc.boolean()),
  object: fc
    .tuple(
      some,
      fc.dictionary(fc.constantFrom(...NAMES), tie('schema')),
      fc.option(tie('schema')),
      tie('schema'),
    )
    .map(([own, properties, others, ofPattern]) => ({
      ...own,
      properties: { ...properties },
      ...(others === null
        ? { patternProperties: { '^[a-z] ?': ofPattern } }
        : { additionalProperties: others, propertyNames: { maxLength: 3 } }),
    })),
  list: fc
    .tuple(some, tie('schema'), fc.boolean())
    .map(([own, items, isContained]) => (isContained ? containing(own, items) : { ...own, items })),
  either: fc
    .tuple(
      some,
      fc.constantFrom('allOf', 'anyOf', 'oneOf'),
      fc.array(tie('schema'), { minLength: 1, maxLength: 3 }),
    )
    .map(([own, keyword, schemas]) => ({ ...own, [keyword]: schemas })),
  condition: fc
    .tuple(some, tie('schema'), tie('schema'), tie('schema'))
    // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
    .map(([own, condition, holds, not]) => ({ ...own, if: condition, then: holds, else: { not } })),
  reference: fc.constant({ $ref: '#/definitions/shared' }),
}));

const RUNS = process.env.TRIBUTARY_TEST_LONG === undefined ? 150 : 5_000;

const DIALECTS = [
  ['https://json-schema.org/draft/2020-12/schema', Ajv2020],
  ['http://json-schema.org/draft-07/schema#', Ajv],
] as const;

const OPTIONS = { strict: false, strictNumbers: true, ownProperties: true, logger: false } as const;

describe('a schema', () => {
  it.each(DIALECTS)('accepts exactly what ajv accepts: %s', (dialect, Oracle) => {
    const seen = { accepted: 0, refused: 0 };
    const property = fc.property(
      fc.tuple(schema, schema, some),
      fc.array(value),
      ([a, b, shared], values) => {
        const definition = { $schema: dialect, properties: { a, b }, definitions: { shared } } as JsonObject;
        const checked = compiled(definition);
        const oracle = new Oracle(OPTIONS);
        formats.default(oracle);
        const isValid = oracle.compile(definition);
        for (const each of values) {
          const subject: JsonObject = { a: each, b: values[0] ?? null };
          const isRight = isValid(subject);
          seen[isRight ? 'accepted' : 'refused']++;
          expect(violationsOf(checked, subject).length === 0).toBe(isRight);
        }
      },
    );
    fc.assert(property, { numRuns: RUNS });
    expect(Math.min(seen.accepted, seen.refused)).toBeGreaterThan(RUNS / 4);
  });
});

describe('a list of lists', () => {
  it('is refused for an empty list that must contain something, behind one that does', () => {
    const lists = { properties: { a: { items: { contains: { type: 'null' } } } } };
    expect(violations(lists, { a: [[null], [null]] })).toEqual([]);
    expect(violations(lists, { a: [[null], []] })).toHaveLength(1);
  });
});

function violations(definition: JsonObject, subject: JsonObject) {
  return violationsOf(compiled(definition), subject);
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
