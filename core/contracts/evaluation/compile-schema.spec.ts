import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, it } from 'vitest';
import type { Json, JsonObject } from '../../event/event.ts';
import { compiled, violationsOf } from '../contracts.fixture.ts';
import { MAX_SCHEMA_BYTES, MAX_SCHEMA_DEPTH } from '../definition/definition.ts';
import { MAX_ENUM_VALUES, MAX_SUBSCHEMAS } from '../definition/schema-document.ts';
import { lastOf } from '../work.ts';
import { checkSchema, compileSchema } from './compile-schema.ts';
import { SharedParts } from './schema-check.ts';

const DRAFT_07 = 'http://json-schema.org/draft-07/schema#';

function isFine(definition: JsonObject, subject: JsonObject): boolean {
  return violationsOf(compiled(definition), subject).length === 0;
}

function paths(definition: JsonObject): readonly string[] {
  return checkSchema(definition).map((fault) => fault.path);
}

function nested(depth: number, inner: Json, name = 'not'): JsonObject {
  let schema: Json = inner;
  for (let level = 0; level < depth; level++) schema = { [name]: schema };
  return schema as JsonObject;
}

describe('the short form of a schema', () => {
  const order = {
    properties: {
      id: { type: 'string', required: true },
      note: { type: 'string', required: false },
      customer: {
        type: 'object',
        properties: { email: { type: 'string', format: 'email', required: true } },
      },
      lines: {
        type: 'array',
        items: { type: 'object', properties: { sku: { type: 'string', required: true } } },
      },
    },
  };

  it('states at each property whether it is required', () => {
    expect(isFine(order, { id: 'o-1' })).toBe(true);
    expect(isFine(order, { note: 'no id' })).toBe(false);
  });

  it('states so at any depth', () => {
    expect(isFine(order, { id: 'o-1', customer: {} })).toBe(false);
    expect(isFine(order, { id: 'o-1', lines: [{ sku: 'a' }, {}] })).toBe(false);
    expect(isFine(order, { id: 'o-1', customer: { email: 'a@b.example' }, lines: [{ sku: 'a' }] })).toBe(
      true,
    );
  });

  it('may be mixed with a list of required names', () => {
    const mixed = { required: ['a'], properties: { a: {}, b: { required: true } } };
    expect(isFine(mixed, { a: 1 })).toBe(false);
    expect(isFine(mixed, { b: 1 })).toBe(false);
    expect(isFine(mixed, { a: 1, b: 1 })).toBe(true);
  });

  it('reads fields named like keywords as fields', () => {
    const definition = {
      properties: { required: { type: 'boolean', required: true }, properties: { type: 'string' } },
    };
    expect(isFine(definition, { required: false, properties: 'x' })).toBe(true);
    expect(isFine(definition, {})).toBe(false);
  });

  it('knows no boolean outside of a property', () => {
    expect(paths({ required: true, properties: {} })).toEqual(['/required']);
    expect(paths({ properties: { tags: { items: { type: 'string', required: true } } } })).toEqual([
      '/properties/tags/items/required',
    ]);
  });

  it('is not JSON Schema: a definition that names its dialect has none of it', () => {
    expect(paths({ $schema: DRAFT_07, properties: { a: { required: true } } })).toEqual([
      '/properties/a/required',
    ]);
  });
});

describe('JSON Schema', () => {
  it.each(['http://json-schema.org/draft-04/schema#', 'https://example.com/mine', 7])(
    'knows no dialect %s',
    ($schema) => {
      expect(paths({ $schema })).toEqual(['/$schema']);
    },
  );

  it('allows annotations and extensions', () => {
    const annotated = {
      title: 't',
      examples: [1],
      deprecated: true,
      'x-owner': 'team',
      properties: { a: { default: 1 } },
    };
    expect(checkSchema(annotated)).toEqual([]);
  });

  it('does sums on decimals as people do', () => {
    const price = { properties: { price: { multipleOf: 0.01 } } };
    expect(isFine(price, { price: 19.99 })).toBe(true);
    expect(isFine(price, { price: 19.995 })).toBe(false);
    expect(isFine({ properties: { n: { multipleOf: 0.5 } } }, { n: 1e308 })).toBe(true);
  });
});

describe('a fault', () => {
  it.each<[string, JsonObject, string]>([
    ['an unknown keyword', { properties: { a: { typ: 'string' } } }, '/properties/a/typ'],
    ['a field outside of properties', { order_id: { type: 'string' } }, '/order_id'],
    ['an unknown type', { properties: { a: { type: 'strin' } } }, '/properties/a/type'],
    ['no schema', { properties: { a: 'string' } }, '/properties/a'],
    ['an unknown format', { properties: { 'a/b': { format: 'colour' } } }, '/properties/a~1b/format'],
    ['a malformed pattern', { properties: { a: { pattern: '(' } } }, '/properties/a/pattern'],
    ['a look-ahead', { properties: { a: { pattern: '^(?=a)' } } }, '/properties/a/pattern'],
    ['a look-behind', { properties: { a: { pattern: '(?<!a)b' } } }, '/properties/a/pattern'],
    ['a back-reference', { patternProperties: { '(a)\\1': {} } }, '/patternProperties/(a)\\1'],
    ['a $ref to the web', { properties: { a: { $ref: 'http://example.com/s' } } }, '/properties/a/$ref'],
    ['a $ref to a file', { $ref: 'other.json' }, '/$ref'],
    ['a $ref to the machine', { $ref: 'file:///etc/passwd' }, '/$ref'],
    ['a $ref to nothing', { properties: { a: { $ref: '#/$defs/a' } } }, '/properties/a/$ref'],
    ['a $ref to no schema', { properties: { a: { $ref: '#/properties' } } }, '/properties/a/$ref'],
    ['a $ref to an unknown anchor', { $ref: '#here' }, '/$ref'],
    ['two schemas of one name', { $defs: { a: { $anchor: 'x' }, b: { $anchor: 'x' } } }, '/$defs/b/$anchor'],
  ])('is %s', (_, definition, path) => {
    expect(paths(definition)).toEqual([path]);
  });

  it('has a message in plain words', () => {
    expect(checkSchema({ properties: { a: { type: 'strin' }, b: { minimum: '1' } } })).toEqual([
      {
        path: '/properties/a/type',
        message: 'must be one of "array", "boolean", "integer", "null", "number", "object", "string"',
      },
      { path: '/properties/b/minimum', message: 'must be a number' },
    ]);
  });
});

describe('references', () => {
  it('of two contracts with one $id never meet', () => {
    const one = { $id: 'https://example.com/s', properties: { a: { type: 'string' } } };
    const two = { $id: 'https://example.com/s', properties: { a: { type: 'number' } } };
    expect(isFine(one, { a: 'x' })).toBe(true);
    expect(isFine(two, { a: 1 })).toBe(true);
    expect(paths({ $ref: 'https://example.com/s' })).toEqual(['/$ref']);
  });

  it.each<[string, JsonObject]>([
    ['itself', { $ref: '#' }],
    ['itself in an alternative', { anyOf: [{ type: 'object' }, { $ref: '#' }] }],
    ['a pair', { $ref: '#/$defs/a', $defs: { a: { $ref: '#/$defs/b' }, b: { $ref: '#/$defs/a' } } }],
    [
      'a pair met on two ways',
      {
        $ref: '#/$defs/a',
        $defs: {
          a: { allOf: [{ properties: { x: { $ref: '#/$defs/b' } } }, { $ref: '#/$defs/b' }] },
          b: { $ref: '#/$defs/a' },
        },
      },
    ],
  ])('may not go round in circles at one place: %s', (_, definition) => {
    expect(checkSchema(definition)[0]?.message).toMatch(/must not lead back to itself/);
  });

  it('may follow a $dynamicRef, but not choose between several anchors', () => {
    const list = {
      $dynamicAnchor: 'node',
      properties: { next: { $dynamicRef: '#node' }, v: { type: 'integer' } },
    };
    expect(isFine(list, { next: { next: { v: 1 } } })).toBe(true);
    expect(isFine(list, { next: { next: { v: 'x' } } })).toBe(false);
    const several = { ...list, $defs: { other: { $id: 'other', $dynamicAnchor: 'node' } } };
    expect(paths(several)).toEqual(['/properties/next/$dynamicRef']);
  });
});

describe('the bounds of a definition', () => {
  it('are its bytes', () => {
    expect(paths({ description: 'x'.repeat(MAX_SCHEMA_BYTES - 20) })).toEqual([]);
    expect(paths({ description: 'x'.repeat(MAX_SCHEMA_BYTES) })).toEqual(['']);
  });

  it('are its depth', () => {
    expect(paths(nested(MAX_SCHEMA_DEPTH - 1, {}))).toEqual([]);
    expect(paths(nested(MAX_SCHEMA_DEPTH + 1, {}))).toEqual(['']);
    expect(paths(nested(100_000, {}))).toEqual(['']);
  });

  it('are the values of its enums, taken together', () => {
    const half = (from: number) => ({
      enum: Array.from({ length: MAX_ENUM_VALUES / 2 }, (_, at) => from + at),
    });
    expect(paths({ properties: { a: half(0), b: half(1) } })).toEqual([]);
    expect(paths({ properties: { a: half(0), b: half(1), c: { enum: [1] } } })).toEqual([
      '/properties/c/enum',
    ]);
    expect(paths({ enum: Array(100_000).fill(1) })).toEqual(['/enum']);
  });

  it('are its schemas', () => {
    expect(paths({ allOf: Array(MAX_SUBSCHEMAS - 1).fill(true) })).toEqual([]);
    expect(paths({ allOf: Array(MAX_SUBSCHEMAS).fill(true) })).toEqual(['']);
  });
});

/** Bytes of the heap that are in use once everything else was collected. */
function heapInUse(): number {
  setFlagsFromString('--expose-gc');
  const collect: unknown = runInNewContext('gc');
  if (typeof collect === 'function') for (let i = 0; i < 2; i++) collect();
  return process.memoryUsage().heapUsed;
}

describe('the weight of a compiled schema', () => {
  // The evaluator caches schemas up to a total weight of 256 MiB.
  it.each<[string, (at: number, of: number) => Json]>([
    ['long texts', (at, of) => `text ${at} of ${of}`.padEnd(22, 'x')],
    ['short texts', (at, of) => `${of}${at.toString(36)}`],
    ['numbers', (at, of) => at + of / 10],
    ['lists', (at, of) => [at + of / 10]],
    ['objects', (at, of) => ({ a: at + of / 10 })],
  ])('is no less than the memory it takes, with an enum of ten thousand %s', (_, value) => {
    const ofOne = (of: number): JsonObject => {
      const values = Array.from({ length: MAX_ENUM_VALUES }, (__, at) => value(at, of));
      return { properties: { a: { enum: values } } };
    };
    const definitions = Array.from({ length: 4 }, (__, of) => ofOne(of));
    // Other specs share this heap, and what they left may be collected in between: the middle of three runs decides.
    const runs = Array.from({ length: 3 }, () => {
      const shared = new SharedParts();
      lastOf(compileSchema(ofOne(10), shared));
      const before = heapInUse();
      const schemas = definitions.map((definition) => lastOf(compileSchema(definition, shared)).schema);
      const held = heapInUse() - before;
      return { held, weight: schemas.reduce((sum, schema) => sum + (schema?.weight ?? 0), 0) };
    });
    const [, { held, weight } = { held: Number.NaN, weight: Number.NaN }] = runs.sort(
      (a, b) => a.held - b.held,
    );
    expect(held).toBeGreaterThan(1024 * 1024);
    expect(weight).toBeGreaterThan(held);
  });
});

it('a schema of 2019-09 was refused, while an import took it: it is read as 2020-12', () => {
  const definition = {
    $schema: 'https://json-schema.org/draft/2019-09/schema',
    properties: { a: { type: 'string' } },
    dependentRequired: { a: ['b'] },
    unevaluatedProperties: false,
  };
  const schema = compiled(definition);
  const faultsOf = (subject: JsonObject) => violationsOf(schema, subject).length;
  expect([faultsOf({}), faultsOf({ a: 'x' }), faultsOf({ c: 1 })]).toEqual([0, 1, 1]);
  expect(checkSchema({ ...definition, $recursiveRef: '#' })).toMatchObject([{ path: '/$recursiveRef' }]);
});
