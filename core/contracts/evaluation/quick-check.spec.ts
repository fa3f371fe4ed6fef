import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Json, JsonObject } from '../../event/event.ts';
import { compileSchema } from './compile-schema.ts';

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
  multipleOf: fc.constantFrom(0.1, 0.5, 1),
  minLength: fc.constantFrom(0, 1, 2),
  maxLength: fc.constantFrom(0, 1, 2, 10),
  pattern: fc.constantFrom('^a', 'b$', '^[a-z]*$'),
  format: fc.constantFrom('date', 'date-time', 'email', 'uri', 'uuid'),
  minItems: fc.constantFrom(0, 1, 2),
  maxItems: fc.constantFrom(0, 1, 2),
  uniqueItems: fc.boolean(),
  required: fc.uniqueArray(fc.constantFrom(...NAMES), { maxLength: 2 }),
  title: fc.constant('says nothing'),
};

/** A schema of a few keywords. */
const some = fc
  .subarray(Object.entries(assertions), { maxLength: 3 })
  .chain((kept) => fc.record(Object.fromEntries(kept)))
  .map((keywords): JsonObject => ({ ...keywords }));

const { schema } = fc.letrec<{ schema: Json; leaf: Json; object: Json; list: Json }>((tie) => ({
  schema: fc.oneof({ maxDepth: 3, withCrossShrink: true }, tie('leaf'), tie('object'), tie('list')),
  leaf: fc.oneof(some, fc.boolean()),
  object: fc
    .tuple(some, fc.dictionary(fc.constantFrom(...NAMES), tie('schema')), fc.option(tie('schema')))
    .map(([own, properties, others]) => ({
      ...own,
      properties: { ...properties },
      ...(others === null ? {} : { additionalProperties: others }),
    })),
  list: fc.tuple(some, tie('schema')).map(([own, items]) => ({ ...own, items })),
}));

function compiled(definition: JsonObject, $schema: string) {
  const { schema: found, faults } = compileSchema({ $schema, ...definition });
  if (found === undefined) throw new Error(JSON.stringify(faults));
  return found;
}

describe('the quick check of an event', () => {
  it.each(['https://json-schema.org/draft/2020-12/schema', 'http://json-schema.org/draft-07/schema#'])(
    'accepts exactly what the compiled schema accepts: %s',
    (dialect) => {
      const seen = { accepted: 0, refused: 0 };
      fc.assert(
        fc.property(fc.array(schema, { minLength: 1, maxLength: 2 }), fc.array(value), (schemas, values) => {
          const [a, b = true] = schemas;
          const { quick, checker, declared, meter } = compiled(
            { properties: { a, b } as JsonObject },
            dialect,
          );
          if (quick === undefined) throw new Error('the schema has no quick check');
          for (const each of values) {
            const subject: JsonObject = { a: each, b: values[0] ?? null };
            meter.reset();
            const isRight = checker.errors(subject).length === 0;
            const isDeclared = declared.undeclared(subject).length === 0;
            seen[isRight ? 'accepted' : 'refused']++;
            const accepted = [quick.accepts(subject, false), quick.accepts(subject, true)];
            const right = [isRight, isRight && isDeclared];
            // Numbers that do not fit a double are left to the compiled schema.
            if (!hasInfinity(subject)) expect(accepted).toEqual(right);
            else expect(accepted.map((each, at) => !each || right[at])).toEqual([true, true]);
          }
        }),
        { numRuns: 1_000 },
      );
      expect(Math.min(seen.accepted, seen.refused)).toBeGreaterThan(300);
    },
  );

  it.each([
    ['a reference', { $defs: { a: {} }, properties: { a: { $ref: '#/$defs/a' } } }],
    ['alternatives', { anyOf: [{ required: ['a'] }, { required: ['b'] }] }],
    ['patterns of names', { patternProperties: { '^a': {} } }],
    ['a format of numbers', { properties: { a: { format: 'int32' } } }],
    ['a field called __proto__', JSON.parse('{"properties":{"__proto__":{"type":"string"}}}') as JsonObject],
  ])('is not taken where there is %s', (_, definition) => {
    expect(compiled(definition as JsonObject, 'https://json-schema.org/draft/2020-12/schema').quick).toBe(
      undefined,
    );
  });
});

function hasInfinity(given: Json): boolean {
  if (typeof given === 'number') return !Number.isFinite(given);
  return typeof given === 'object' && given !== null && Object.values(given).some(hasInfinity);
}
