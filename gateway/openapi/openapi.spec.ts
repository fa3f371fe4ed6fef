import { Type } from 'typebox';
import { describe, expect, it } from 'vitest';
import { documentedAs } from '../resources/schemas.ts';
import { documented, shareTitled } from './openapi.ts';

describe('a schema with a title', () => {
  it('is stated once, and referred to everywhere', () => {
    const source = { title: 'Source', type: 'object', properties: { title: { type: 'string' } } };
    const components = {};
    const shared = shareTitled({ one: source, list: { type: 'array', items: source } }, components);
    const reference = { $ref: '#/components/schemas/Source' };
    expect(shared).toEqual({ one: reference, list: { type: 'array', items: reference } });
    expect(components).toEqual({ Source: source });
  });

  it('may hold another', () => {
    const components = {};
    shareTitled({ title: 'Outer', properties: { inner: { title: 'Inner', type: 'string' } } }, components);
    expect(components).toEqual({
      Inner: { title: 'Inner', type: 'string' },
      Outer: { title: 'Outer', properties: { inner: { $ref: '#/components/schemas/Inner' } } },
    });
  });

  it('is a mistake where another has the same', () => {
    const components = { Source: { title: 'Source', type: 'object' } };
    expect(() => shareTitled({ title: 'Source', type: 'string' }, components)).toThrow(
      'two schemas of the API are called Source',
    );
  });

  it('has none where an example has one', () => {
    const page = { type: 'object', examples: [{ title: 'Home' }] };
    expect(shareTitled(page, {})).toEqual(page);
  });
});

it('states the checks of the code behind a schema, at any depth, and leaves the schema alone', () => {
  const limit = Type.String({ description: 'Items.', ...documentedAs({ type: 'integer', minimum: 1 }) });
  const schema = Type.Object({ page: Type.Object({ limit }) }, documentedAs({ minProperties: 1 }));
  expect(documented(schema)).toEqual({
    type: 'object',
    required: ['page'],
    minProperties: 1,
    properties: {
      page: {
        type: 'object',
        required: ['limit'],
        properties: { limit: { type: 'integer', minimum: 1, description: 'Items.' } },
      },
    },
  });
  expect(schema.properties.page.properties.limit.type).toBe('string');
});
