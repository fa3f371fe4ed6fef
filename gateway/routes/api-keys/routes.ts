import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { GatewayDependencies } from '../../dependencies.ts';
import { entityOf, propose, revokeKey } from '../../resources/catalog-entities.ts';
import { linkNext, pageOf, pageQuery, pageRequest } from '../../resources/pagination.ts';
import { closed, errorAnswers, pathOf, removedAs } from '../../resources/schemas.ts';
import { makeKeyFields, NEVER_USED, readLastUses } from '../keys/key-resource.ts';
import { expiryOf } from './expiry.ts';
import { grantsOf } from './grants.ts';
import { presentApiKey } from './presenter.ts';
import { apiKeyBody, apiKeyList, createdApiKey } from './schemas.ts';

const path = '/workspaces/:workspaceId/api-keys';

/** `/workspaces/:workspaceId/api-keys`: the raw key is shown once, revoking is for good. */
export const apiKeyRoutes: FastifyPluginAsyncTypebox<GatewayDependencies> = async (app, dependencies) => {
  const { catalog } = dependencies;

  app.get(
    path,
    {
      config: { operation: 'api-keys.list' },
      schema: {
        operationId: 'listApiKeys',
        summary: 'List API keys',
        params: pathOf(),
        querystring: closed(pageQuery),
        response: { 200: apiKeyList, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const keys = catalog.state.listing('api_key', request.workspace.id);
      const page = pageOf(keys, pageRequest(request.query));
      const uses = await readLastUses(request, reply, dependencies, page.items);
      linkNext(request, reply, page.next);
      return reply.code(200).send(page.items.map((key) => presentApiKey(key, uses, catalog.state)));
    },
  );

  app.post(
    path,
    {
      config: { operation: 'api-keys.create' },
      schema: {
        operationId: 'createApiKey',
        summary: 'Create an API key',
        params: pathOf(),
        body: apiKeyBody,
        response: { 201: createdApiKey, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const { name, role: wantedRole, may_manage, expires_at } = request.body;
      const role = wantedRole ?? 'editor';
      const grants = grantsOf(may_manage ?? [], role, request, catalog.state);
      const expiry = expiryOf(expires_at ?? undefined, dependencies.clock());
      const { raw, fields } = makeKeyFields(request, dependencies, 'api_key', name);
      await propose(request, dependencies, {
        v: 2,
        type: 'api_key.created',
        entity: fields.id,
        expected_version: 0,
        data: { ...fields, role, expires_at: expiry, ...(grants.length > 0 && { may_manage: grants }) },
      });
      const key = entityOf(request, dependencies, 'api_key', fields.id);
      return reply.code(201).send({ ...presentApiKey(key, NEVER_USED, catalog.state), key: raw });
    },
  );

  app.delete(
    `${path}/:keyId`,
    {
      config: { operation: 'api-keys.revoke' },
      schema: {
        operationId: 'revokeApiKey',
        summary: 'Revoke an API key',
        params: pathOf('keyId'),
        response: { 200: removedAs('revoked'), ...errorAnswers },
      },
    },
    async (request) => revokeKey(request, dependencies, 'api_key', request.params.keyId),
  );
};
