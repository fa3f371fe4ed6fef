import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../event/event.ts';
import { compiled } from '../contracts.fixture.ts';

function declared(definition: JsonObject) {
  const { declared, meter } = compiled(definition);
  meter.reset();
  return declared;
}

describe('a field is declared', () => {
  it.each<[string, JsonObject, JsonObject, readonly string[]]>([
    ['by its name', { properties: { a: {} } }, { a: 1, b: 1 }, ['/b']],
    ['by a pattern', { patternProperties: { '^utm_': {} } }, { utm_source: 'x', ref: 'y' }, ['/ref']],
    [
      'by a schema for the rest',
      { properties: { a: {} }, additionalProperties: { type: 'string' } },
      { b: 'x' },
      [],
    ],
    ['by an open rest', { properties: { a: {} }, additionalProperties: true }, { b: 'x' }, []],
    ['not by a closed rest', { properties: { a: {} }, additionalProperties: false }, { b: 'x' }, ['/b']],
    ['not by a closed rest alone', { additionalProperties: false }, { b: 'x' }, ['/b']],
    ['in a nested object', { properties: { a: { properties: { b: {} } } } }, { a: { b: 1, c: 1 } }, ['/a/c']],
    [
      'in each item',
      { properties: { a: { items: { properties: { b: {} } } } } },
      { a: [{ b: 1 }, { c: 1 }] },
      ['/a/1/c'],
    ],
    [
      'in an item by its place',
      { properties: { a: { prefixItems: [{ properties: { b: {} } }], items: { properties: { c: {} } } } } },
      { a: [{ b: 1, c: 1 }, { b: 1, c: 1 }, { c: 1 }] },
      ['/a/0/c', '/a/1/b'],
    ],
    [
      'behind a reference',
      { $ref: '#/$defs/a', $defs: { a: { properties: { a: {} } } } },
      { a: 1, b: 1 },
      ['/b'],
    ],
    [
      'in lists of lists',
      { properties: { a: { items: { items: { properties: { b: {} } } } } } },
      { a: [[{ b: 1 }], [{ b: 1 }, { c: 1 }]] },
      ['/a/1/1/c'],
    ],
    [
      'behind a reference in an item, and beside it',
      {
        properties: { a: { items: { $ref: '#/$defs/a', properties: { c: {} } } } },
        $defs: {
          a: { allOf: [{ properties: { b: {} } }, { $ref: '#/$defs/b' }] },
          b: { properties: { x: {} } },
        },
      },
      { a: [{ b: 1, c: 1, x: 1, d: 1 }] },
      ['/a/0/d'],
    ],
    [
      'in a list of draft-07, by its place and for the rest',
      {
        $schema: 'http://json-schema.org/draft-07/schema#',
        properties: {
          a: { items: [{ properties: { b: {} } }], additionalItems: { $ref: '#/definitions/c' } },
        },
        definitions: { c: { properties: { c: {} } } },
      },
      {
        a: [
          { b: 1, c: 1 },
          { b: 1, c: 1 },
        ],
      },
      ['/a/0/c', '/a/1/b'],
    ],
    [
      'by what another field brings along',
      { properties: { a: {} }, dependentSchemas: { a: { properties: { b: { properties: { c: {} } } } } } },
      { b: { c: 1, d: 1 }, e: 1 },
      ['/b/d', '/e'],
    ],
    [
      'by a schema for what no other looked at',
      { allOf: [{ properties: { a: {} } }], unevaluatedProperties: { properties: { x: {} } } },
      { a: { any: 1 }, b: { x: 1, y: 1 } },
      ['/b/y'],
    ],
    [
      'by a schema for the items that no other looked at',
      {
        properties: {
          l: { allOf: [{ prefixItems: [{}] }], unevaluatedItems: { properties: { x: {} } } },
        },
      },
      { l: [{ any: 1 }, { x: 1, y: 1 }] },
      ['/l/1/y'],
    ],
    [
      'in a recursion',
      { properties: { child: { $ref: '#' }, v: {} } },
      { child: { child: { v: 1, w: 1 }, v: 1 } },
      ['/child/child/w'],
    ],
    [
      'in any part of allOf',
      { allOf: [{ properties: { a: {} } }, { properties: { b: {} } }] },
      { a: 1, b: 1, c: 1 },
      ['/c'],
    ],
    [
      'in any alternative',
      { oneOf: [{ properties: { a: {} } }, { properties: { b: {} } }] },
      { a: 1, b: 1, c: 1 },
      ['/c'],
    ],
    [
      'on either side of a condition',
      // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
      { if: { properties: { a: {} } }, then: { properties: { b: {} } }, else: { properties: { c: {} } } },
      { a: 1, b: 1, c: 1, d: 1 },
      ['/d'],
    ],
    [
      'not by what must not match',
      { properties: { a: {} }, not: { properties: { b: {} } } },
      { b: 1 },
      ['/b'],
    ],
    [
      'by the parts of all that declare the object around it',
      {
        allOf: [
          { properties: { o: { properties: { a: {} } } } },
          { properties: { o: { properties: { b: {} } } } },
        ],
      },
      { o: { a: 1, b: 1, c: 1 } },
      ['/o/c'],
    ],
    [
      'where nothing is said of the content',
      { properties: { o: { type: 'object' } } },
      { o: { any: { thing: 1 } } },
      [],
    ],
    ['where the whole schema says nothing', { type: 'object' }, { any: 1 }, []],
    ['not by an empty list of fields', { properties: {} }, { anything: 1 }, ['/anything']],
    ['not by an empty list of patterns', { patternProperties: {} }, { utm: 1 }, ['/utm']],
    [
      'not by an empty list of fields in a nested object, in an item, behind a reference and in an alternative',
      {
        properties: {
          o: { type: 'object', properties: {} },
          l: { items: { properties: {} } },
          r: { $ref: '#/$defs/none' },
          one: { oneOf: [{ properties: {} }, { type: 'string' }] },
        },
        $defs: { none: { properties: {} } },
      },
      { o: { a: 1 }, l: [{ b: 1 }, {}, 'text'], r: { c: { d: 1 } }, one: { e: 1 } },
      ['/o/a', '/l/0/b', '/r/c', '/one/e'],
    ],
    [
      'not by an empty list of fields beside others',
      { allOf: [{ properties: {} }, { properties: { a: {} } }] },
      { a: 1, b: 1 },
      ['/b'],
    ],
    [
      'where draft-07 does not heed an empty list of fields beside a reference',
      {
        $schema: 'http://json-schema.org/draft-07/schema#',
        properties: { a: { $ref: '#/definitions/a', properties: {} } },
        definitions: { a: { type: 'object' } },
      },
      { a: { free: 1 } },
      [],
    ],
  ])('%s', (_, definition, subject, undeclared) => {
    expect(declared(definition).undeclared(subject)).toEqual(undeclared);
  });

  it('whatever it is called', () => {
    const definition = JSON.parse('{"properties":{"__proto__":{"properties":{"a":{}}}}}') as JsonObject;
    const subject = JSON.parse('{"__proto__":{"a":1,"b":1},"constructor":1}') as JsonObject;
    expect(declared(definition).undeclared(subject)).toEqual(['/__proto__/b', '/constructor']);
    expect(JSON.stringify(declared(definition).without(subject))).toBe('{"__proto__":{"a":1}}');
  });

  it('and nothing is looked for inside an undeclared one', () => {
    expect(declared({ properties: { a: {} } }).undeclared({ b: { c: { d: 1 } } })).toEqual(['/b']);
  });
});

describe('a subject without its undeclared fields', () => {
  const definition = {
    properties: { a: {}, list: { items: { properties: { x: {}, y: {} } } }, free: { type: 'object' } },
  };

  it('keeps the rest in its order', () => {
    const subject = { z: 1, list: [{ y: 1, no: 2, x: 3 }, 'text'], free: { kept: 1 }, a: 0 };
    const before = structuredClone(subject);
    const kept = declared(definition).without(subject);
    expect(JSON.stringify(kept)).toBe('{"list":[{"y":1,"x":3},"text"],"free":{"kept":1},"a":0}');
    expect(subject).toEqual(before);
  });

  it('is the very same when there are none', () => {
    const subject = { a: 1 };
    expect(declared(definition).without(subject)).toBe(subject);
  });

  it('has none left, for any JSON', () => {
    const { declared: fields, meter } = compiled({
      properties: { a: { $ref: '#' }, b: { items: { anyOf: [{ $ref: '#' }, { properties: { c: {} } }] } } },
      patternProperties: { '^p': { properties: { q: {} } } },
    });
    const key = fc.constantFrom('a', 'b', 'c', 'p', 'pp', 'q', '__proto__');
    const { tree } = fc.letrec((tie) => ({
      tree: fc.oneof(
        { depthSize: 'small' },
        fc.integer(),
        fc.array(tie('tree'), { maxLength: 3 }),
        fc.dictionary(key, tie('tree'), { maxKeys: 5 }),
      ),
    }));
    fc.assert(
      fc.property(fc.dictionary(key, tree), (object) => {
        const subject = JSON.parse(JSON.stringify(object)) as JsonObject;
        const before = JSON.stringify(subject);
        // As for each event: the work of all cases together is more than that of one may be.
        meter.reset();
        const kept = fields.without(subject);
        expect(fields.undeclared(kept)).toEqual([]);
        expect(JSON.stringify(subject)).toBe(before);
        if (fields.undeclared(subject).length === 0) expect(kept).toBe(subject);
      }),
    );
  });
});
