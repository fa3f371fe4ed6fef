import {
  type ApiKey,
  type CatalogView,
  CLIENT_KEY_SCOPES,
  type ClientKey,
  type Clock,
  ENVIRONMENTS,
  type Environment,
  type FoundKey,
  iso,
  isUsable,
  KEY_GRANTS,
  type KeyGrant,
  type Listing,
  makeKey,
  messageOf,
  newId,
  ORGANIZATION_ROLES,
  receivedTopic,
  TributaryError,
  WORKSPACE_ROLES,
  type Workspace,
  type WorkspaceRole,
  type WriteKey,
} from '@tributary/core';
import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify';
import { type Static, type TSchema, Type } from 'typebox';
import { accountOf, administersOrganization, BY_ADMIN_OF_ORGANIZATION } from '../authentication/caller.ts';
import type { GatewayDependencies, Routes } from '../dependencies.ts';
import { invalidRequest, notFound, permissionDenied } from '../errors/api-error.ts';
import { entityNamed, inPath, type Proposal, propose } from '../resources/catalog-entities.ts';
import { byId, byWord, type CatalogList, catalogList } from '../resources/lists.ts';
import {
  boolean,
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
  string,
  time,
  times,
  uuid,
} from '../resources/schemas.ts';

const keyFields = {
  ...resourceFields,
  key_prefix: string('The start of the raw key, to tell keys apart.'),
  status: oneOf(['active', 'revoked']),
  last_used_at: nullable(time),
  created_by: uuid,
  ...times,
};

const rawKey = { key: string('The raw key. It is not shown again.') };

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
    return new Map();
  }
}

type KeyKind = FoundKey['kind'];
type KeyOf<Kind extends KeyKind> = Extract<FoundKey, { readonly kind: Kind }>['key'];

/** A kind of key: the raw key is shown once, and revocation is permanent. */
interface KeyResource<Kind extends KeyKind, Body extends TSchema> {
  readonly kind: Kind;
  readonly path: string;
  readonly collection: 'api-keys' | 'event-keys' | 'client-keys';
  /** As operation ids and summaries name it. */
  readonly title: string;
  readonly noun: string;
  readonly plural: string;
  readonly body: Body;
  readonly resource: TSchema;
  readonly created: TSchema;
  readonly list: CatalogList<KeyOf<Kind>, Record<never, never>>;
  listing(request: FastifyRequest): Listing<KeyOf<Kind>>;
  /** Undefined for one of another workspace or organization. */
  find(request: FastifyRequest, id: string): KeyOf<Kind> | undefined;
  /** The fact of a new key and its raw text. */
  create(request: FastifyRequest, body: Static<Body>): { readonly raw: string; readonly proposal: Proposal };
  /** Without its last use. The hash is not shown. */
  present(key: KeyOf<Kind>): object;
  presentCreated?(key: KeyOf<Kind>): object;
}

function keyRoutes<Kind extends KeyKind, Body extends TSchema>(
  dependencies: GatewayDependencies,
  of: KeyResource<Kind, Body>,
): FastifyPluginAsync {
  const { kind, path, collection, title, noun } = of;
  const named = (request: FastifyRequest, id = inPath(request, 'keyId')) => {
    const key = of.find(request, id.toLowerCase());
    if (key === undefined) throw notFound();
    return key;
  };

  return async (app) => {
    app.get(
      path,
      operation(`${collection}.list`, `list${title}s`, `List ${of.plural}`, {
        querystring: of.list.querystring,
        response: { 200: listOf(of.resource) },
      }),
      async (request, reply) => {
        const keys = of.list.read(request, reply, of.listing(request));
        const uses = await readLastUses(request, reply, dependencies, keys);
        return keys.map((key) => {
          const at = uses.get(key.id);
          return { ...of.present(key), last_used_at: at === undefined ? null : iso(at) };
        });
      },
    );

    app.post(
      path,
      operation(`${collection}.create`, `create${title}`, `Create ${noun}`, {
        body: of.body,
        response: { 201: of.created },
      }),
      async (request, reply) => {
        const { raw, proposal } = of.create(request, request.body as Static<Body>);
        await propose(request, dependencies, proposal);
        const key = named(request, proposal.entity);
        const shown = { ...of.present(key), last_used_at: null, key: raw, ...of.presentCreated?.(key) };
        return reply.code(201).send(shown);
      },
    );

    app.delete(
      `${path}/:keyId`,
      operation(`${collection}.revoke`, `revoke${title}`, `Revoke ${noun}`, {
        response: { 200: removedAs('revoked') },
      }),
      async (request) => {
        const { id, status } = named(request);
        if (status !== 'revoked')
          await propose(request, dependencies, { type: `${kind}.revoked`, entity: id, data: {} } as Proposal);
        return { id, status: 'revoked' };
      },
    );
  };
}

const grants = listOf(
  oneOf(KEY_GRANTS),
  'What it does beyond the rest of its role `admin`: make API keys (`keys`), add, change and remove members (`members`). For admins of the organization to allow, by ID token. Default: neither.',
  { uniqueItems: true },
);

const apiKeyBody = closed(
  {
    name,
    role: optional(oneOf(WORKSPACE_ROLES, 'The role of the key in its workspace. Default `editor`.')),
    may_manage: optional(grants),
    expires_at: optional(string('ISO 8601, in the future: from then on it is refused. Default: never.')),
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

const apiKeyLists = (clock: Clock) =>
  catalogList<ApiKey>()({
    filters: {
      status: byWord(STATUSES, 'Only of this status. Default: all.', (key) => statusOf(key, clock())),
      role: byWord(WORKSPACE_ROLES, 'Only with this role.', ({ role }) => role),
      created_by: byId('Only those that this account created.', ({ created_by }) => created_by),
    },
  });

function statusOf(key: Omit<ApiKey, 'hash'>, now: number): (typeof STATUSES)[number] {
  return key.status === 'active' && !isUsable(key, now) ? 'expired' : key.status;
}

/** `/workspaces/:workspaceId/api-keys`. */
export const apiKeyRoutes: Routes = async (app, dependencies) => {
  const { catalog, clock } = dependencies;
  await app.register(
    keyRoutes(dependencies, {
      kind: 'api_key',
      path: '/workspaces/:workspaceId/api-keys',
      collection: 'api-keys',
      title: 'ApiKey',
      noun: 'an API key',
      plural: 'API keys',
      body: apiKeyBody,
      resource: Type.Object(apiKeyFields, { title: 'ApiKey' }),
      created: Type.Object({ ...apiKeyFields, ...rawKey }, { title: 'CreatedApiKey' }),
      list: apiKeyLists(clock),
      listing: ({ workspace }) => catalog.state.listing('api_key', workspace.id),
      find: ({ workspace }, id) => catalog.state.entity('api_key', workspace.id, id),
      create(request, { name, role: wanted, may_manage, expires_at }) {
        const role = wanted ?? 'editor';
        const grants = grantsOf(may_manage ?? [], role, request, catalog.state);
        const expiry = expiryOf(expires_at ?? undefined, clock());
        const { raw, fields } = makeKeyFields(keyOwnerOf(request), dependencies, 'api_key', name);
        const data = {
          ...fields,
          role,
          expires_at: expiry,
          ...(grants.length > 0 && { may_manage: grants }),
        };
        const proposal = {
          v: 2,
          type: 'api_key.created',
          entity: fields.id,
          expected_version: 0,
          data,
        } as const;
        return { raw, proposal };
      },
      present: ({ hash: _, ...key }) => ({
        ...key,
        may_manage: key.may_manage ?? [],
        status: statusOf(key, clock()),
        created_by_role: catalog.state.workspaceRole(key.created_by, key.workspace_id) ?? null,
      }),
    }),
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

const topic = string('The received topic its events go to.');

const writeKeyBody = closed(
  {
    name,
    environment: oneOf(
      ENVIRONMENTS,
      'Rules take events of `development` only if their `environments` name it.',
    ),
    pubsub_topic: optional(topic),
    source_id: optional(string('The source its events come from.', 'uuid')),
    collect_ip: optional(
      boolean(
        'Fill `context.ip` of its events with the address they are sent from, where they have none. Addresses are personal data. Default false.',
      ),
    ),
    webhooks_only: optional(
      boolean(
        'Accept it in the address of webhooks of its source alone: then an event of the key was signed by their sender. Default false.',
      ),
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

const writeKeys = catalogList<WriteKey>()({
  filters: {
    status: byWord(['active', 'revoked'], 'Only of this status. Default: both.', ({ status }) => status),
    environment: byWord(ENVIRONMENTS, 'Only of this environment.', ({ environment }) => environment),
    source_id: byId('Only those of this source.', ({ source_id }) => source_id),
    created_by: byId('Only those that this account created.', ({ created_by }) => created_by),
  },
});

/** `/workspaces/:workspaceId/event-keys`. */
export const writeKeyRoutes: Routes = async (app, dependencies) => {
  const { catalog } = dependencies;
  await app.register(
    keyRoutes(dependencies, {
      kind: 'write_key',
      path: '/workspaces/:workspaceId/event-keys',
      collection: 'event-keys',
      title: 'WriteKey',
      noun: 'a write key',
      plural: 'write keys',
      body: writeKeyBody,
      resource: Type.Object(writeKeyFields, { title: 'WriteKey' }),
      created: createdWriteKey,
      list: writeKeys,
      listing: ({ workspace }) => catalog.state.listing('write_key', workspace.id),
      find: ({ workspace }, id) => catalog.state.entity('write_key', workspace.id, id),
      create(request, { name, environment, pubsub_topic, source_id, collect_ip, webhooks_only }) {
        const dedicated = topicsOf(request.workspace, dependencies);
        const topic = topicFor(environment, pubsub_topic ?? undefined, dedicated);
        const sourceId = entityNamed(catalog.state, 'source', request.workspace.id, source_id)?.id ?? null;
        if (webhooks_only === true && sourceId === null)
          throw invalidRequest({ path: '/source_id', message: 'is required for webhooks' });
        const owner = keyOwnerOf(request);
        const { raw, fields } = makeKeyFields(owner, dependencies, 'write_key', name, environment);
        const data = {
          ...fields,
          environment,
          pubsub_topic: topic,
          source_id: sourceId,
          ...(collect_ip === true ? { collect_ip } : {}),
          ...(webhooks_only === true ? { webhooks_only } : {}),
        };
        return { raw, proposal: { type: 'write_key.created', entity: fields.id, expected_version: 0, data } };
      },
      present: ({ hash: _, ...key }) => ({
        ...key,
        collect_ip: key.collect_ip ?? false,
        webhooks_only: key.webhooks_only ?? false,
      }),
      presentCreated({ workspace_id, environment }) {
        const rules = catalog.state.enabledRules(workspace_id);
        return {
          enabled_rules: rules.filter(({ environments }) => environments.includes(environment)).length,
        };
      },
    }),
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

const clientKeyScope = oneOf(CLIENT_KEY_SCOPES);

const clientKeyBody = closed(
  {
    name,
    scopes: listOf(clientKeyScope, 'The scopes of the key.', { minItems: 1, uniqueItems: true }),
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

const clientKeys = catalogList<ClientKey>()({
  filters: {
    status: byWord(['active', 'revoked'], 'Only of this status. Default: both.', ({ status }) => status),
    created_by: byId('Only those that this account created.', ({ created_by }) => created_by),
  },
});

/** `/organizations/:organizationId/client-keys`. */
export const clientKeyRoutes: Routes = async (app, dependencies) => {
  const { catalog, random } = dependencies;
  await app.register(
    keyRoutes(dependencies, {
      kind: 'client_key',
      path: '/organizations/:organizationId/client-keys',
      collection: 'client-keys',
      title: 'ClientKey',
      noun: 'a client key',
      plural: 'the client keys of an organization',
      body: clientKeyBody,
      resource: Type.Object(clientKeyFields, { title: 'ClientKey' }),
      created: Type.Object({ ...clientKeyFields, ...rawKey }, { title: 'CreatedClientKey' }),
      list: clientKeys,
      listing: ({ organization }) => catalog.state.clientKeys.listing(organization.id),
      find: ({ organization }, id) => catalog.state.clientKeys.get(organization.id, id),
      create({ organization, caller }, { name, scopes }) {
        const { raw, hash, prefix: key_prefix } = makeKey('client_key', random(KEY_BYTES));
        const id = newId();
        const created_by = accountOf(caller);
        const of = { id, organization_id: organization.id, name, scopes };
        const data = { ...of, hash, key_prefix, status: 'active', created_by } as const;
        return { raw, proposal: { v: 2, type: 'client_key.created', entity: id, expected_version: 0, data } };
      },
      present: ({ hash: _, ...key }) => ({
        ...key,
        org_id: catalog.state.organization(key.organization_id)?.org_id,
        created_by_role: catalog.state.organizationRole(key.created_by, key.organization_id) ?? null,
      }),
    }),
  );
};
