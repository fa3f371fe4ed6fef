import { Type } from 'typebox';
import { expect, it } from 'vitest';
import { documentedAs } from '../resources/documented.ts';
import { documented } from './operation.ts';

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
