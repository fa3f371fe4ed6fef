import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { type CatalogSource, newId } from '@tributary/core';
import { type Static, Type } from 'typebox';
import { accountOf } from '../authentication/caller.ts';
import type { GatewayDependencies } from '../dependencies.ts';
import {
  checkVersion,
  deleteEntity,
  entityOf,
  isAlready,
  propose,
  tagVersion,
} from '../resources/catalog-entities.ts';
import { byId, byText, catalogList } from '../resources/catalog-list.ts';
import {
  closed,
  description,
  errorAnswers,
  listOf,
  name,
  nullable,
  oneOf,
  optional,
  pathOf,
  removedAs,
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

const sourceList = listOf(sourceResource);

const sources = catalogList<CatalogSource>()({
  textOf: ({ name }) => name,
  fields: ['name', 'created_at', 'updated_at'],
  filters: {
    type: byText('Only of this kind.', ({ type }) => type),
    created_by: byId('Only those that this account created.', ({ created_by }) => created_by),
  },
});

function presentSource(source: CatalogSource): Static<typeof sourceResource> {
  return {
    id: source.id,
    workspace_id: source.workspace_id,
    name: source.name,
    type: source.type,
    description: source.description,
    status: source.status,
    version: source.version,
    created_by: source.created_by,
    created_at: source.created_at,
    updated_at: source.updated_at,
  };
}

const path = '/workspaces/:workspaceId/sources';

/** `/workspaces/:workspaceId/sources`: the sources of events. A write key may name one; its events then have the id. */
export const sourceRoutes: FastifyPluginAsyncTypebox<GatewayDependencies> = async (app, dependencies) => {
  const { catalog } = dependencies;

  app.get(
    path,
    {
      config: { operation: 'sources.list' },
      schema: {
        operationId: 'listSources',
        summary: 'List sources',
        params: pathOf(),
        querystring: sources.querystring,
        response: { 200: sourceList, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const found = sources.read(request, reply, catalog.state.listing('source', request.workspace.id));
      return reply.code(200).send(found.map(presentSource));
    },
  );

  app.post(
    path,
    {
      config: { operation: 'sources.create' },
      schema: {
        operationId: 'createSource',
        summary: 'Create a source',
        params: pathOf(),
        body: sourceBody,
        response: { 201: sourceResource, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const { name, type, description } = request.body;
      const id = newId();
      await propose(request, dependencies, {
        type: 'source.created',
        entity: id,
        expected_version: 0,
        data: {
          id,
          workspace_id: request.workspace.id,
          name,
          type,
          description: description ?? null,
          status: 'active',
          created_by: accountOf(request.caller),
        },
      });
      const source = entityOf(request, dependencies, 'source', id);
      tagVersion(reply, source);
      return reply.code(201).send(presentSource(source));
    },
  );

  app.get(
    `${path}/:sourceId`,
    {
      config: { operation: 'sources.read' },
      schema: {
        operationId: 'readSource',
        summary: 'Read a source',
        params: pathOf('sourceId'),
        response: { 200: sourceResource, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const source = entityOf(request, dependencies, 'source', request.params.sourceId);
      tagVersion(reply, source);
      return reply.code(200).send(presentSource(source));
    },
  );

  app.put(
    `${path}/:sourceId`,
    {
      config: {
        operation: 'sources.update',
        patched: (request) => {
          const { sourceId } = request.params as { sourceId: string };
          return presentSource(entityOf(request, dependencies, 'source', sourceId));
        },
      },
      schema: {
        operationId: 'replaceSource',
        summary: 'Replace a source',
        params: pathOf('sourceId'),
        body: sourceBody,
        response: { 200: sourceResource, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const stored = entityOf(request, dependencies, 'source', request.params.sourceId);
      checkVersion(request, stored);
      const { name, type, description } = request.body;
      const fields = { name, type, description: description ?? null };
      if (!(await isAlready(request, dependencies, 'source', stored, fields)))
        await propose(request, dependencies, {
          type: 'source.updated',
          entity: stored.id,
          expected_version: stored.version,
          data: fields,
        });
      const source = entityOf(request, dependencies, 'source', stored.id);
      tagVersion(reply, source);
      return reply.code(200).send(presentSource(source));
    },
  );

  app.delete(
    `${path}/:sourceId`,
    {
      config: { operation: 'sources.delete' },
      schema: {
        operationId: 'deleteSource',
        summary: 'Delete a source',
        params: pathOf('sourceId'),
        response: { 200: removedAs('deleted'), ...errorAnswers },
      },
    },
    async (request) => deleteEntity(request, dependencies, 'source', request.params.sourceId),
  );
};
