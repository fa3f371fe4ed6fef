import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { GatewayDependencies } from '../../dependencies.ts';
import { entityOf, propose, revokeKey } from '../../resources/catalog-entities.ts';
import { linkNext, pageOf, pageQuery, pageRequest } from '../../resources/pagination.ts';
import { closed, errorAnswers, pathOf, removedAs } from '../../resources/schemas.ts';
import { makeKeyFields, NEVER_USED, readLastUses } from '../keys/key-resource.ts';
import { presentWriteKey } from './presenter.ts';
import { createdWriteKey, writeKeyBody, writeKeyList } from './schemas.ts';
import { sourceNamed } from './source.ts';
import { topicFor, topicsOf } from './topic.ts';

const path = '/workspaces/:workspaceId/event-keys';

/** `/workspaces/:workspaceId/event-keys`: write keys. The raw key is shown once, revoking is for good. */
export const writeKeyRoutes: FastifyPluginAsyncTypebox<GatewayDependencies> = async (app, dependencies) => {
  const { catalog } = dependencies;

  app.get(
    path,
    {
      config: { operation: 'event-keys.list' },
      schema: {
        operationId: 'listWriteKeys',
        summary: 'List write keys',
        params: pathOf(),
        querystring: closed(pageQuery),
        response: { 200: writeKeyList, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const keys = catalog.state.listing('write_key', request.workspace.id);
      const page = pageOf(keys, pageRequest(request.query));
      const uses = await readLastUses(request, reply, dependencies, page.items);
      linkNext(request, reply, page.next);
      return reply.code(200).send(page.items.map((key) => presentWriteKey(key, uses)));
    },
  );

  app.post(
    path,
    {
      config: { operation: 'event-keys.create' },
      schema: {
        operationId: 'createWriteKey',
        summary: 'Create a write key',
        params: pathOf(),
        body: writeKeyBody,
        response: { 201: createdWriteKey, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const { name, environment, pubsub_topic: wanted, source_id, collect_ip } = request.body;
      const dedicated = topicsOf(request.workspace, dependencies);
      const topic = topicFor(environment, wanted ?? undefined, dedicated);
      const sourceId = sourceNamed(source_id ?? undefined, request.workspace.id, catalog.state);
      const { raw, fields } = makeKeyFields(request, dependencies, 'write_key', name, environment);
      await propose(request, dependencies, {
        type: 'write_key.created',
        entity: fields.id,
        expected_version: 0,
        data: {
          ...fields,
          environment,
          pubsub_topic: topic,
          source_id: sourceId,
          ...(collect_ip === true ? { collect_ip } : {}),
        },
      });
      const key = entityOf(request, dependencies, 'write_key', fields.id);
      return reply.code(201).send({ ...presentWriteKey(key, NEVER_USED), key: raw });
    },
  );

  app.delete(
    `${path}/:keyId`,
    {
      config: { operation: 'event-keys.revoke' },
      schema: {
        operationId: 'revokeWriteKey',
        summary: 'Revoke a write key',
        params: pathOf('keyId'),
        response: { 200: removedAs('revoked'), ...errorAnswers },
      },
    },
    async (request) => revokeKey(request, dependencies, 'write_key', request.params.keyId),
  );
};
