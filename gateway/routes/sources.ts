import type { CatalogSource } from '@tributary/core';
import type { FastifyPluginAsync } from 'fastify';
import { Type } from 'typebox';
import type { GatewayDependencies } from '../dependencies.ts';
import { update } from '../resources/catalog-entities.ts';
import { entityRoutes } from '../resources/entity-routes.ts';
import { byId, byText, catalogList } from '../resources/lists.ts';
import {
  closed,
  description,
  name,
  nullable,
  oneOf,
  optional,
  resourceFields,
  times,
  uuid,
  version,
} from '../resources/schemas.ts';

const type = Type.String({
  minLength: 1,
  maxLength: 50,
  pattern: '^[a-z0-9][a-z0-9_-]*$',
  description: 'The kind of source, freely chosen: `web`, `ios`, `billing-server`.',
});

const sourceBody = closed(
  { name, type, description: optional(description) },
  { title: 'SourceBody', examples: [{ name: 'shop', type: 'web' }] },
);

const sourceResource = Type.Object(
  {
    ...resourceFields,
    type,
    description: nullable(description),
    status: oneOf(['active']),
    version,
    created_by: uuid,
    ...times,
  },
  { title: 'Source' },
);

const sources = catalogList<CatalogSource>()({
  textOf: ({ name }) => name,
  fields: ['name', 'created_at', 'updated_at'],
  filters: {
    type: byText('Only of this kind.', ({ type }) => type),
    created_by: byId('Only those that this account created.', ({ created_by }) => created_by),
  },
});

/** `/workspaces/:workspaceId/sources`: the sources of events. A write key may name one; its events then have the id. */
export const sourceRoutes: FastifyPluginAsync<GatewayDependencies> = async (app, dependencies) => {
  await app.register(
    entityRoutes(dependencies, {
      kind: 'source',
      collection: 'sources',
      noun: 'a source',
      body: sourceBody,
      resource: sourceResource,
      list: sources,
      create: (_, { name, type, description = null }) => ({
        fields: { name, type, description, status: 'active' as const },
      }),
      replace: (request, { name, type, description = null }, stored) =>
        update(request, dependencies, 'source', stored, { name, type, description }),
      present: (source) => source,
    }),
  );
};
