import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../event/event.ts';
import { schemaDefinition } from './plan.fixture.ts';
import { type TypeModel, typeModelOf } from './type-model.ts';

const shown = (model: TypeModel): unknown => ({
  ...(model.types === undefined ? {} : { types: model.types }),
  ...(model.values === undefined ? {} : { values: model.values }),
  ...(model.fields.length === 0
    ? {}
    : {
        fields: Object.fromEntries(
          model.fields.map((field) => [field.required ? `${field.name}!` : field.name, shown(field.model)]),
        ),
      }),
  ...(model.rest === undefined || model.rest === false ? {} : { rest: shown(model.rest) }),
  ...(model.items === undefined ? {} : { items: shown(model.items) }),
});

describe('the model of a schema', () => {
  it.each<[string, JsonObject, unknown]>([
    [
      'the short form',
      { properties: { a: { type: 'string', required: true } } },
      { fields: { 'a!': { types: ['string'] } } },
    ],
    [
      'allOf, as what all permit',
      {
        properties: { a: { type: 'number' } },
        allOf: [{ properties: { a: { type: 'integer', enum: [1, 2] } }, required: ['a'] }],
      },
      { fields: { 'a!': { types: ['integer'], values: [1, 2] } } },
    ],
    [
      'anyOf, as what any permits',
      { anyOf: [{ properties: { a: { type: 'string' }, b: {} } }, { properties: { a: { type: 'null' } } }] },
      { fields: { a: { types: ['string', 'null'] }, b: {} } },
    ],
    [
      'references',
      {
        $defs: { id: { type: 'string' } },
        properties: { a: { $ref: '#/$defs/id' }, list: { items: { $ref: '#/$defs/id' } } },
      },
      { fields: { a: { types: ['string'] }, list: { items: { types: ['string'] } } } },
    ],
    [
      'a recursion, which ends',
      { properties: { next: { $ref: '#' } } },
      { fields: { next: { fields: { next: {} } } } },
    ],
    [
      'other fields',
      { properties: {}, additionalProperties: { type: 'number' } },
      { rest: { types: ['number'] } },
    ],
    [
      'conditions, as fields of any value',
      JSON.parse('{ "if": { "required": ["a"] }, "then": { "properties": { "b": { "type": "string" } } } }'),
      { fields: { b: {} } },
    ],
    [
      'false, as nothing',
      { properties: { a: false } as unknown as JsonObject },
      { fields: { a: { types: [] } } },
    ],
  ])('has %s', (_, schema, expected) => {
    expect(shown(typeModelOf(schema))).toEqual(expected);
  });

  it('declares no field where the schema says so or lists others, and any where it is silent', () => {
    expect(typeModelOf({}).rest).toBeUndefined();
    expect(typeModelOf({ properties: {} }).rest).toBe(false);
    expect(typeModelOf({ additionalProperties: false }).rest).toBe(false);
    expect(typeModelOf({ allOf: [{ properties: {} }, { additionalProperties: true }] }).rest).toMatchObject({
      fields: [],
    });
  });

  it('is bounded where references multiply', () => {
    const names = Array.from({ length: 40 }, (_, at) => `d${at}`);
    const $defs = Object.fromEntries(
      names.map((name, at) => [
        name,
        { properties: { a: { $ref: `#/$defs/d${at + 1}` }, b: { $ref: `#/$defs/d${at + 1}` } } },
      ]),
    );
    const model = typeModelOf({ $ref: '#/$defs/d0', $defs } as unknown as JsonObject);
    expect(JSON.stringify(model).length).toBeLessThan(5_000_000);
  });

  it('has the fields of an event before those of its items where both are too many', () => {
    const fields = (count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, at) => [`f${at}`, { type: 'string' }]));
    const model = typeModelOf({ properties: fields(4_500), items: { properties: fields(4_500) } });
    const partial = (of: TypeModel | undefined) => of?.fields.filter((field) => field.model.isPartial).length;
    expect(partial(model)).toBe(0);
    expect(partial(model.items)).toBeGreaterThan(3_000);
  });

  it('exists of any schema', () => {
    fc.assert(fc.property(schemaDefinition, (schema) => typeof typeModelOf(schema) === 'object'));
  });
});
