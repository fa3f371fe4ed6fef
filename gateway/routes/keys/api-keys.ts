import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import {
  type ApiKey,
  type CatalogView,
  type Clock,
  iso,
  isUsable,
  KEY_GRANTS,
  type KeyGrant,
  WORKSPACE_ROLES,
  type WorkspaceRole,
} from '@tributary/core';
import type { FastifyRequest } from 'fastify';
import { type Static, type TSchema, Type } from 'typebox';
import { administersOrganization } from '../../authentication/caller.ts';
import { BY_ADMIN_OF_ORGANIZATION } from '../../authentication/refusal-reasons.ts';
import type { GatewayDependencies } from '../../dependencies.ts';
import { invalidRequest, permissionDenied } from '../../errors/api-error.ts';
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
  time,
} from '../../resources/schemas.ts';
import { parseTime } from '../../resources/values.ts';
import {
  keyFields,
  keyOwnerOf,
  lastUse,
  makeKeyFields,
  NEVER_USED,
  rawKey,
  readLastUses,
} from './key-resource.ts';

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

const fields = {
  ...keyFields,
  status: oneOf(STATUSES),
  role: oneOf(WORKSPACE_ROLES),
  may_manage: listOf(oneOf(KEY_GRANTS), 'What it does beyond the rest of its role.'),
  expires_at: nullable(time),
  created_by_role: nullable(
    oneOf(WORKSPACE_ROLES, 'The current role of its creator in the workspace; null without one.'),
  ),
};

const apiKeyResource = Type.Object(fields, { title: 'ApiKey' });

const createdApiKey = Type.Object({ ...fields, ...rawKey }, { title: 'CreatedApiKey' });

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

function statusOf(key: ApiKey, now: number): (typeof STATUSES)[number] {
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
function presentApiKey(key: ApiKey, { uses, state, now }: Presented): Static<typeof apiKeyResource> {
  return {
    id: key.id,
    workspace_id: key.workspace_id,
    name: key.name,
    key_prefix: key.key_prefix,
    role: key.role,
    may_manage: key.may_manage ?? [],
    status: statusOf(key, now),
    expires_at: key.expires_at,
    last_used_at: lastUse(uses, key.id),
    created_by: key.created_by,
    created_by_role: state.workspaceRole(key.created_by, key.workspace_id) ?? null,
    created_at: key.created_at,
    updated_at: key.updated_at,
  };
}

const path = '/workspaces/:workspaceId/api-keys';

/** `/workspaces/:workspaceId/api-keys`: the raw key is shown once; revocation is permanent. */
export const apiKeyRoutes: FastifyPluginAsyncTypebox<GatewayDependencies> = async (app, dependencies) => {
  const { catalog, clock } = dependencies;
  const apiKeys = apiKeyLists(clock);

  app.get(
    path,
    {
      config: { operation: 'api-keys.list' },
      schema: {
        operationId: 'listApiKeys',
        summary: 'List API keys',
        params: pathOf(),
        querystring: apiKeys.querystring,
        response: { 200: apiKeyList, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const keys = apiKeys.read(request, reply, catalog.state.listing('api_key', request.workspace.id));
      const uses = await readLastUses(request, reply, dependencies, keys);
      const shown = { uses, state: catalog.state, now: clock() };
      return reply.code(200).send(keys.map((key) => presentApiKey(key, shown)));
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
export function expiryOf(wanted: string | undefined, now: number): string | null {
  const at = parseTime('/expires_at', wanted);
  if (at === undefined) return null;
  if (at <= now) throw invalidRequest({ path: '/expires_at', message: 'must be in the future' });
  return iso(at);
}
