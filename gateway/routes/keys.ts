import {
  type ApiKey,
  type CatalogView,
  CLIENT_KEY_SCOPES,
  type ClientKey,
  type ClientKeyScope,
  type Clock,
  ENVIRONMENTS,
  type Environment,
  type FoundKey,
  iso,
  isUsable,
  KEY_GRANTS,
  type KeyGrant,
  makeKey,
  messageOf,
  newId,
  ORGANIZATION_ROLES,
  type Organization,
  receivedTopic,
  TributaryError,
  WORKSPACE_ROLES,
  type Workspace,
  type WorkspaceRole,
  type WriteKey,
} from '@tributary/core';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { type Static, type TSchema, Type } from 'typebox';
import { accountOf, administersOrganization, BY_ADMIN_OF_ORGANIZATION } from '../authentication/caller.ts';
import type { GatewayDependencies, Routes } from '../dependencies.ts';
import { invalidRequest, notFound, permissionDenied } from '../errors/api-error.ts';
import { entityOf, inPath, propose } from '../resources/catalog-entities.ts';
import { byId, byWord, catalogList } from '../resources/lists.ts';
import {
  closed,
  listOf,
  name,
  nullable,
  oneOf,
  operation,
  optional,
  parseTime,
  removedAs,
  resourceFields,
  time,
  times,
  uuid,
} from '../resources/schemas.ts';

/** The fields of every kind of key. */
const keyFields = {
  ...resourceFields,
  key_prefix: Type.String({ description: 'The start of the raw key, to tell keys apart.' }),
  status: oneOf(['active', 'revoked']),
  last_used_at: nullable(time),
  created_by: uuid,
  ...times,
};

/** The raw key, in the response to its creation only. */
const rawKey = { key: Type.String({ description: 'The raw key. It is not shown again.' }) };

const KEY_BYTES = 32;

/** The workspace of a new key, and the account that it is created for. */
interface KeyOwner {
  readonly workspaceId: string;
  readonly accountId: string;
}

function keyOwnerOf({ workspace, caller }: FastifyRequest): KeyOwner {
  return { workspaceId: workspace.id, accountId: accountOf(caller) };
}

/** Creates a key and the fields of its entity. The raw text is returned to the caller and not stored. */
export function makeKeyFields(
  { workspaceId, accountId }: KeyOwner,
  { random }: Pick<GatewayDependencies, 'random'>,
  kind: 'api_key' | 'write_key',
  name: string,
  environment?: Environment,
) {
  const { raw, hash, prefix } = makeKey(kind, random(KEY_BYTES), environment);
  const fields = {
    id: newId(),
    workspace_id: workspaceId,
    name,
    hash,
    key_prefix: prefix,
    status: 'active',
    created_by: accountId,
  } as const;
  return { raw, fields };
}

/** Revokes a key permanently. Idempotent. */
async function revoke(
  request: FastifyRequest,
  dependencies: GatewayDependencies,
  kind: FoundKey['kind'],
  { id, status }: FoundKey['key'],
) {
  if (status !== 'revoked')
    await propose(request, dependencies, { type: `${kind}.revoked`, entity: id, data: {} });
  return { id, status: 'revoked' } as const;
}

/** The header that names fields which are null because their source does not respond. */
const UNKNOWN_FIELDS = 'x-unknown-fields';

/**
 * The last uses of keys, epoch ms. While the counters do not respond the map is empty, and a header states that the uses
 * are unknown: listing keys, which revoking one needs, must not depend on the counters.
 */
async function readLastUses(
  request: FastifyRequest,
  reply: FastifyReply,
  { counters, logger }: Pick<GatewayDependencies, 'counters' | 'logger'>,
  keys: readonly { readonly id: string }[],
): Promise<ReadonlyMap<string, number>> {
  try {
    return await counters.lastUsed(keys.map(({ id }) => id));
  } catch (error) {
    if (!(error instanceof TributaryError) || !error.retryable) throw error;
    logger.warn({ request_id: request.id, error: messageOf(error) }, 'the last use of keys cannot be read');
    reply.header(UNKNOWN_FIELDS, 'last_used_at');
    return NEVER_USED;
  }
}

/** The last use of a key, for responses. */
function lastUse(uses: ReadonlyMap<string, number>, keyId: string): string | null {
  const at = uses.get(keyId);
  return at === undefined ? null : iso(at);
}

/** For a new key. */
const NEVER_USED: ReadonlyMap<string, number> = new Map();

const grants = Type.Unsafe<readonly KeyGrant[]>({
  type: 'array',
  items: oneOf(KEY_GRANTS),
  uniqueItems: true,
  description:
    'What it does beyond the rest of its role `admin`: make API keys (`keys`), add, change and remove members (`members`). For admins of the organization to allow, by ID token. Default: neither.',
} satisfies TSchema);

const apiKeyBody = closed(
  {
    name,
    role: optional(oneOf(WORKSPACE_ROLES, 'The role of the key in its workspace. Default `editor`.')),
    may_manage: optional(grants),
    expires_at: optional(
      Type.String({ description: 'ISO 8601, in the future: from then on it is refused. Default: never.' }),
    ),
  },
  { title: 'ApiKeyBody', examples: [{ name: 'nightly export', role: 'viewer' }] },
);

const STATUSES = ['active', 'revoked', 'expired'] as const;

const apiKeyFields = {
  ...keyFields,
  status: oneOf(STATUSES),
  role: oneOf(WORKSPACE_ROLES),
  may_manage: listOf(oneOf(KEY_GRANTS), 'What it does beyond the rest of its role.'),
  expires_at: nullable(time),
  created_by_role: nullable(
    oneOf(WORKSPACE_ROLES, 'The current role of its creator in the workspace; null without one.'),
  ),
};

const apiKeyResource = Type.Object(apiKeyFields, { title: 'ApiKey' });

const createdApiKey = Type.Object({ ...apiKeyFields, ...rawKey }, { title: 'CreatedApiKey' });

const apiKeyList = listOf(apiKeyResource);

const apiKeyLists = (clock: Clock) =>
  catalogList<ApiKey>()({
    textOf: ({ name }) => name,
    fields: ['name', 'created_at', 'updated_at'],
    filters: {
      status: byWord(STATUSES, 'Only of this status. Default: all.', (key) => statusOf(key, clock())),
      role: byWord(WORKSPACE_ROLES, 'Only with this role.', ({ role }) => role),
      created_by: byId('Only those that this account created.', ({ created_by }) => created_by),
    },
  });

function statusOf(key: Omit<ApiKey, 'hash'>, now: number): (typeof STATUSES)[number] {
  return key.status === 'active' && !isUsable(key, now) ? 'expired' : key.status;
}

interface Presented {
  /** The last uses of keys, epoch ms. */
  readonly uses: ReadonlyMap<string, number>;
  readonly state: Pick<CatalogView, 'workspaceRole'>;
  /** Epoch ms. */
  readonly now: number;
}

/** The hash is not shown. */
function presentApiKey(
  { hash: _, ...key }: ApiKey,
  { uses, state, now }: Presented,
): Static<typeof apiKeyResource> {
  return {
    ...key,
    may_manage: key.may_manage ?? [],
    status: statusOf(key, now),
    last_used_at: lastUse(uses, key.id),
    created_by_role: state.workspaceRole(key.created_by, key.workspace_id) ?? null,
  };
}

const apiKeyPath = '/workspaces/:workspaceId/api-keys';

/** `/workspaces/:workspaceId/api-keys`: the raw key is shown once; revocation is permanent. */
export const apiKeyRoutes: Routes = async (app, dependencies) => {
  const { catalog, clock } = dependencies;
  const apiKeys = apiKeyLists(clock);

  app.get(
    apiKeyPath,
    operation('api-keys.list', 'listApiKeys', 'List API keys', {
      querystring: apiKeys.querystring,
      response: { 200: apiKeyList },
    }),
    async (request, reply) => {
      const keys = apiKeys.read(request, reply, catalog.state.listing('api_key', request.workspace.id));
      const uses = await readLastUses(request, reply, dependencies, keys);
      const shown = { uses, state: catalog.state, now: clock() };
      return keys.map((key) => presentApiKey(key, shown));
    },
  );

  app.post(
    apiKeyPath,
    operation('api-keys.create', 'createApiKey', 'Create an API key', {
      body: apiKeyBody,
      response: { 201: createdApiKey },
    }),
    async (request, reply) => {
      const { name, role: wantedRole, may_manage, expires_at } = request.body;
      const role = wantedRole ?? 'editor';
      const grants = grantsOf(may_manage ?? [], role, request, catalog.state);
      const expiry = expiryOf(expires_at ?? undefined, clock());
      const { raw, fields } = makeKeyFields(keyOwnerOf(request), dependencies, 'api_key', name);
      await propose(request, dependencies, {
        v: 2,
        type: 'api_key.created',
        entity: fields.id,
        expected_version: 0,
        data: { ...fields, role, expires_at: expiry, ...(grants.length > 0 && { may_manage: grants }) },
      });
      const key = entityOf(request, dependencies, 'api_key', fields.id);
      const shown = { uses: NEVER_USED, state: catalog.state, now: clock() };
      return reply.code(201).send({ ...presentApiKey(key, shown), key: raw });
    },
  );

  app.delete(
    `${apiKeyPath}/:keyId`,
    operation('api-keys.revoke', 'revokeApiKey', 'Revoke an API key', {
      response: { 200: removedAs('revoked') },
    }),
    async (request) =>
      revoke(
        request,
        dependencies,
        'api_key',
        entityOf(request, dependencies, 'api_key', inPath(request, 'keyId')),
      ),
  );
};

/**
 * The grants of a new API key. Only an admin of the organization with an ID token gives grants (403), and only to a key
 * with the role `admin` (400). A key with a grant cannot pass it on.
 */
function grantsOf(
  wanted: readonly KeyGrant[],
  role: WorkspaceRole,
  { caller, workspace }: Pick<FastifyRequest, 'caller' | 'workspace'>,
  state: Pick<CatalogView, 'organizationRole'>,
): readonly KeyGrant[] {
  if (wanted.length === 0) return [];
  if (!administersOrganization(caller, workspace.organization_id, state))
    throw permissionDenied(`for may_manage, ${BY_ADMIN_OF_ORGANIZATION}`);
  if (role !== 'admin') throw invalidRequest({ path: '/may_manage', message: 'requires the role admin' });
  return KEY_GRANTS.filter((grant) => wanted.includes(grant));
}

/** The expiry of a new key, in UTC; null for never. 400 for an invalid time, and for one that is not in the future. */
function expiryOf(wanted: string | undefined, now: number): string | null {
  const at = parseTime('/expires_at', wanted);
  if (at === undefined) return null;
  if (at <= now) throw invalidRequest({ path: '/expires_at', message: 'must be in the future' });
  return iso(at);
}

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
    webhooks_only: optional(
      Type.Boolean({
        description:
          'Accept it in the address of webhooks of its source alone: then an event of the key was signed by their sender. Default false.',
      }),
    ),
  },
  { title: 'WriteKeyBody', examples: [{ name: 'shop', environment: 'production' }] },
);

const writeKeyFields = {
  ...keyFields,
  environment: oneOf(ENVIRONMENTS),
  pubsub_topic: topic,
  source_id: nullable(uuid),
  collect_ip: Type.Boolean(),
  webhooks_only: Type.Boolean(),
};

const writeKeyResource = Type.Object(writeKeyFields, { title: 'WriteKey' });

const createdWriteKey = Type.Object(
  {
    ...writeKeyFields,
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
function presentWriteKey(
  { hash: _, ...key }: WriteKey,
  uses: ReadonlyMap<string, number>,
): Static<typeof writeKeyResource> {
  return {
    ...key,
    collect_ip: key.collect_ip ?? false,
    webhooks_only: key.webhooks_only ?? false,
    last_used_at: lastUse(uses, key.id),
  };
}

const writeKeyPath = '/workspaces/:workspaceId/event-keys';

/** `/workspaces/:workspaceId/event-keys`: write keys. The raw key is shown once; revocation is permanent. */
export const writeKeyRoutes: Routes = async (app, dependencies) => {
  const { catalog } = dependencies;

  app.get(
    writeKeyPath,
    operation('event-keys.list', 'listWriteKeys', 'List write keys', {
      querystring: writeKeys.querystring,
      response: { 200: writeKeyList },
    }),
    async (request, reply) => {
      const keys = writeKeys.read(request, reply, catalog.state.listing('write_key', request.workspace.id));
      const uses = await readLastUses(request, reply, dependencies, keys);
      return keys.map((key) => presentWriteKey(key, uses));
    },
  );

  app.post(
    writeKeyPath,
    operation('event-keys.create', 'createWriteKey', 'Create a write key', {
      body: writeKeyBody,
      response: { 201: createdWriteKey },
    }),
    async (request, reply) => {
      const { name, environment, pubsub_topic: wanted, source_id, collect_ip, webhooks_only } = request.body;
      const dedicated = topicsOf(request.workspace, dependencies);
      const topic = topicFor(environment, wanted ?? undefined, dedicated);
      const sourceId = sourceNamed(source_id ?? undefined, request.workspace.id, catalog.state);
      if (webhooks_only === true && sourceId === null)
        throw invalidRequest({ path: '/source_id', message: 'is required for webhooks' });
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
          ...(webhooks_only === true ? { webhooks_only } : {}),
        },
      });
      const key = entityOf(request, dependencies, 'write_key', fields.id);
      const rules = catalog.state.enabledRules(key.workspace_id);
      const enabled_rules = rules.filter(({ environments }) => environments.includes(environment)).length;
      return reply.code(201).send({ ...presentWriteKey(key, NEVER_USED), key: raw, enabled_rules });
    },
  );

  app.delete(
    `${writeKeyPath}/:keyId`,
    operation('event-keys.revoke', 'revokeWriteKey', 'Revoke a write key', {
      response: { 200: removedAs('revoked') },
    }),
    async (request) =>
      revoke(
        request,
        dependencies,
        'write_key',
        entityOf(request, dependencies, 'write_key', inPath(request, 'keyId')),
      ),
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

const clientKeyScope = oneOf(CLIENT_KEY_SCOPES);

const clientKeyBody = closed(
  {
    name,
    scopes: Type.Unsafe<readonly ClientKeyScope[]>({
      type: 'array',
      items: clientKeyScope,
      minItems: 1,
      uniqueItems: true,
      description: 'The scopes of the key.',
    } satisfies TSchema),
  },
  { title: 'ClientKeyBody', examples: [{ name: 'shop', scopes: ['profile.read'] }] },
);

const clientKeyFields = {
  id: keyFields.id,
  organization_id: uuid,
  org_id: Type.Integer({
    description: 'The number of the organization: the `orgId` of the profile API.',
    examples: [1],
  }),
  name,
  key_prefix: keyFields.key_prefix,
  scopes: listOf(clientKeyScope),
  status: keyFields.status,
  last_used_at: keyFields.last_used_at,
  created_by: keyFields.created_by,
  created_by_role: nullable(
    oneOf(ORGANIZATION_ROLES, 'The current role of its creator in the organization; null without one.'),
  ),
  created_at: keyFields.created_at,
  updated_at: keyFields.updated_at,
};

const clientKeyResource = Type.Object(clientKeyFields, { title: 'ClientKey' });

const createdClientKey = Type.Object({ ...clientKeyFields, ...rawKey }, { title: 'CreatedClientKey' });

const clientKeyList = listOf(clientKeyResource);

/** `uses`: the last uses of keys, epoch ms. The hash is not shown. */
function presentClientKey(
  { hash: _, ...key }: ClientKey,
  organization: Organization,
  uses: ReadonlyMap<string, number>,
  state: Pick<CatalogView, 'organizationRole'>,
): Static<typeof clientKeyResource> {
  return {
    ...key,
    org_id: organization.org_id,
    last_used_at: lastUse(uses, key.id),
    created_by_role: state.organizationRole(key.created_by, key.organization_id) ?? null,
  };
}

const clientKeys = catalogList<ClientKey>()({
  textOf: ({ name }) => name,
  fields: ['name', 'created_at', 'updated_at'],
  filters: {
    status: byWord(['active', 'revoked'], 'Only of this status. Default: both.', ({ status }) => status),
    created_by: byId('Only those that this account created.', ({ created_by }) => created_by),
  },
});

const clientKeyPath = '/organizations/:organizationId/client-keys';

/** `/organizations/:organizationId/client-keys`: the raw key is shown once; revocation is permanent. */
export const clientKeyRoutes: Routes = async (app, dependencies) => {
  const { catalog, random } = dependencies;

  app.get(
    clientKeyPath,
    operation('client-keys.list', 'listClientKeys', 'List the client keys of an organization', {
      querystring: clientKeys.querystring,
      response: { 200: clientKeyList },
    }),
    async (request, reply) => {
      const keys = clientKeys.read(request, reply, catalog.state.clientKeys.listing(request.organization.id));
      const uses = await readLastUses(request, reply, dependencies, keys);
      return keys.map((key) => presentClientKey(key, request.organization, uses, catalog.state));
    },
  );

  app.post(
    clientKeyPath,
    operation('client-keys.create', 'createClientKey', 'Create a client key', {
      body: clientKeyBody,
      response: { 201: createdClientKey },
    }),
    async (request, reply) => {
      const { raw, hash, prefix } = makeKey('client_key', random(KEY_BYTES));
      const id = newId();
      await propose(request, dependencies, {
        v: 2,
        type: 'client_key.created',
        entity: id,
        expected_version: 0,
        data: {
          id,
          organization_id: request.organization.id,
          ...request.body,
          hash,
          key_prefix: prefix,
          status: 'active',
          created_by: accountOf(request.caller),
        },
      });
      return reply.code(201).send({
        ...presentClientKey(keyNamed(request, id), request.organization, NEVER_USED, catalog.state),
        key: raw,
      });
    },
  );

  app.delete(
    `${clientKeyPath}/:keyId`,
    operation('client-keys.revoke', 'revokeClientKey', 'Revoke a client key', {
      response: { 200: removedAs('revoked') },
    }),
    async (request) =>
      revoke(request, dependencies, 'client_key', keyNamed(request, inPath(request, 'keyId'))),
  );

  function keyNamed({ organization }: FastifyRequest, id: string): ClientKey {
    const key = catalog.state.clientKeys.get(organization.id, id.toLowerCase());
    if (key === undefined) throw notFound();
    return key;
  }
};
