import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import {
  type CatalogView,
  ENVIRONMENTS,
  type Environment,
  receivedTopic,
  type Workspace,
  type WriteKey,
} from '@tributary/core';
import { type Static, Type } from 'typebox';
import type { GatewayDependencies } from '../../dependencies.ts';
import { invalidRequest } from '../../errors/api-error.ts';
import { entityOf, propose, revokeKey } from '../../resources/catalog-entities.ts';
import { byId, byWord, catalogList } from '../../resources/catalog-list.ts';
import {
  closed,
  errorAnswers,
  listOf,
  name,
  nullable,
  oneOf,
  optional,
  pathOf,
  removedAs,
  uuid,
} from '../../resources/schemas.ts';
import {
  keyFields,
  keyOwnerOf,
  lastUse,
  makeKeyFields,
  NEVER_USED,
  rawKey,
  readLastUses,
} from './key-resource.ts';

const topic = Type.String({ description: 'The received topic its events go to.' });

const writeKeyBody = closed(
  {
    name,
    environment: oneOf(
      ENVIRONMENTS,
      'Rules take events of `development` only if their `environments` name it.',
    ),
    pubsub_topic: optional(topic),
    source_id: optional(Type.String({ format: 'uuid', description: 'The source its events come from.' })),
    collect_ip: optional(
      Type.Boolean({
        description:
          'Fill `context.ip` of its events with the address they are sent from, where they have none. Addresses are personal data. Default false.',
      }),
    ),
  },
  { title: 'WriteKeyBody', examples: [{ name: 'shop', environment: 'production' }] },
);

const fields = {
  ...keyFields,
  environment: oneOf(ENVIRONMENTS),
  pubsub_topic: topic,
  source_id: nullable(uuid),
  collect_ip: Type.Boolean(),
};

const writeKeyResource = Type.Object(fields, { title: 'WriteKey' });

const createdWriteKey = Type.Object(
  {
    ...fields,
    ...rawKey,
    enabled_rules: Type.Integer({
      description:
        'Enabled rules that take events of its environment now. With 0 its events are checked and shown, and go to no destination: a rule takes production events alone unless its `environments` name `development`.',
      examples: [3],
    }),
  },
  { title: 'CreatedWriteKey' },
);

const writeKeyList = listOf(writeKeyResource);

const writeKeys = catalogList<WriteKey>()({
  textOf: ({ name }) => name,
  fields: ['name', 'created_at', 'updated_at'],
  filters: {
    status: byWord(['active', 'revoked'], 'Only of this status. Default: both.', ({ status }) => status),
    environment: byWord(ENVIRONMENTS, 'Only of this environment.', ({ environment }) => environment),
    source_id: byId('Only those of this source.', ({ source_id }) => source_id),
    created_by: byId('Only those that this account created.', ({ created_by }) => created_by),
  },
});

/** `uses`: the last uses of keys, epoch ms. The hash is not shown. */
function presentWriteKey(key: WriteKey, uses: ReadonlyMap<string, number>): Static<typeof writeKeyResource> {
  return {
    id: key.id,
    workspace_id: key.workspace_id,
    name: key.name,
    key_prefix: key.key_prefix,
    environment: key.environment,
    pubsub_topic: key.pubsub_topic,
    source_id: key.source_id,
    collect_ip: key.collect_ip ?? false,
    status: key.status,
    last_used_at: lastUse(uses, key.id),
    created_by: key.created_by,
    created_at: key.created_at,
    updated_at: key.updated_at,
  };
}

const path = '/workspaces/:workspaceId/event-keys';

/** `/workspaces/:workspaceId/event-keys`: write keys. The raw key is shown once; revocation is permanent. */
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
        querystring: writeKeys.querystring,
        response: { 200: writeKeyList, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const keys = writeKeys.read(request, reply, catalog.state.listing('write_key', request.workspace.id));
      const uses = await readLastUses(request, reply, dependencies, keys);
      return reply.code(200).send(keys.map((key) => presentWriteKey(key, uses)));
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
      const { raw, fields } = makeKeyFields(
        keyOwnerOf(request),
        dependencies,
        'write_key',
        name,
        environment,
      );
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
      const rules = catalog.state.enabledRules(key.workspace_id);
      const enabled_rules = rules.filter(({ environments }) => environments.includes(environment)).length;
      return reply.code(201).send({ ...presentWriteKey(key, NEVER_USED), key: raw, enabled_rules });
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

/**
 * The declared topics that write keys of a workspace may use. A topic of another tenant is treated as missing: it could be
 * filled through the key, and its name may be that of a customer.
 */
export function topicsOf(
  { id, organization_id }: Pick<Workspace, 'id' | 'organization_id'>,
  { dedicatedTopics, topicTenants }: Pick<GatewayDependencies, 'dedicatedTopics' | 'topicTenants'>,
): readonly string[] {
  return dedicatedTopics.filter((topic) => {
    const tenants = topicTenants.get(topic);
    return tenants === undefined || tenants.has(id) || tenants.has(organization_id);
  });
}

/** The received topic of a new write key: that of its environment, or a declared one. 400 for any other. */
export function topicFor(
  environment: Environment,
  wanted: string | undefined,
  dedicated: readonly string[],
): string {
  const allowed = [receivedTopic(environment), ...dedicated];
  const topic = wanted ?? receivedTopic(environment);
  if (!allowed.includes(topic))
    throw invalidRequest({ path: '/pubsub_topic', message: `must be one of ${allowed.join(', ')}` });
  return topic;
}

/** The source of a new write key, if any. 400 for one that its workspace does not have. */
function sourceNamed(
  wanted: string | undefined,
  workspaceId: string,
  state: Pick<CatalogView, 'entity'>,
): string | null {
  if (wanted === undefined) return null;
  const id = wanted.toLowerCase();
  if (state.entity('source', workspaceId, id) === undefined)
    throw invalidRequest({ path: '/source_id', message: 'is not a source of this workspace' });
  return id;
}
