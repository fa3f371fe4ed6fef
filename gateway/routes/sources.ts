import type { CatalogSource } from '@tributary/core';
import type { FastifyPluginAsync } from 'fastify';
import { Type } from 'typebox';
import { accountOf } from '../authentication/caller.ts';
import type { GatewayDependencies } from '../dependencies.ts';
import { isAlready, propose } from '../resources/catalog-entities.ts';
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
      async create(request, { name, type, description = null }, id) {
        await propose(request, dependencies, {
          type: 'source.created',
          entity: id,
          expected_version: 0,
          data: {
            id,
            workspace_id: request.workspace.id,
            name,
            type,
            description,
            status: 'active',
            created_by: accountOf(request.caller),
          },
        });
      },
      async replace(request, { name, type, description = null }, stored) {
        const data = { name, type, description };
        if (await isAlready(request, dependencies, 'source', stored, data)) return;
        const { id: entity, version: expected_version } = stored;
        await propose(request, dependencies, { type: 'source.updated', entity, expected_version, data });
      },
      present: (source) => source,
    }),
  );
};
