import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import {
  type CatalogView,
  CLIENT_KEY_SCOPES,
  type ClientKey,
  type ClientKeyScope,
  makeKey,
  newId,
  ORGANIZATION_ROLES,
  type Organization,
} from '@tributary/core';
import type { FastifyRequest } from 'fastify';
import { type Static, type TSchema, Type } from 'typebox';
import { accountOf } from '../../authentication/caller.ts';
import type { GatewayDependencies } from '../../dependencies.ts';
import { notFound } from '../../errors/api-error.ts';
import { propose } from '../../resources/catalog-entities.ts';
import { byId, byWord, catalogList } from '../../resources/catalog-list.ts';
import {
  closed,
  errorAnswers,
  listOf,
  name,
  nullable,
  oneOf,
  organizationPathOf,
  removedAs,
  uuid,
} from '../../resources/schemas.ts';
import { KEY_BYTES, keyFields, lastUse, NEVER_USED, rawKey, readLastUses } from './key-resource.ts';

const scope = oneOf(CLIENT_KEY_SCOPES);

const clientKeyBody = closed(
  {
    name,
    scopes: Type.Unsafe<readonly ClientKeyScope[]>({
      type: 'array',
      items: scope,
      minItems: 1,
      uniqueItems: true,
      description: 'The scopes of the key.',
    } satisfies TSchema),
  },
  { title: 'ClientKeyBody', examples: [{ name: 'shop', scopes: ['profile.read'] }] },
);

const { id, key_prefix, status, last_used_at, created_by, created_at, updated_at } = keyFields;

const fields = {
  id,
  organization_id: uuid,
  org_id: Type.Integer({
    description: 'The number of the organization: the `orgId` of the profile API.',
    examples: [1],
  }),
  name,
  key_prefix,
  scopes: listOf(scope),
  status,
  last_used_at,
  created_by,
  created_by_role: nullable(
    oneOf(ORGANIZATION_ROLES, 'The current role of its creator in the organization; null without one.'),
  ),
  created_at,
  updated_at,
};

const clientKeyResource = Type.Object(fields, { title: 'ClientKey' });

const createdClientKey = Type.Object({ ...fields, ...rawKey }, { title: 'CreatedClientKey' });

const clientKeyList = listOf(clientKeyResource);

/** `uses`: the last uses of keys, epoch ms. The hash is not shown. */
function presentClientKey(
  key: ClientKey,
  organization: Organization,
  uses: ReadonlyMap<string, number>,
  state: Pick<CatalogView, 'organizationRole'>,
): Static<typeof clientKeyResource> {
  return {
    id: key.id,
    organization_id: key.organization_id,
    org_id: organization.org_id,
    name: key.name,
    key_prefix: key.key_prefix,
    scopes: key.scopes,
    status: key.status,
    last_used_at: lastUse(uses, key.id),
    created_by: key.created_by,
    created_by_role: state.organizationRole(key.created_by, key.organization_id) ?? null,
    created_at: key.created_at,
    updated_at: key.updated_at,
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

const path = '/organizations/:organizationId/client-keys';

/** `/organizations/:organizationId/client-keys`: the raw key is shown once; revocation is permanent. */
export const clientKeyRoutes: FastifyPluginAsyncTypebox<GatewayDependencies> = async (app, dependencies) => {
  const { catalog, random } = dependencies;

  app.get(
    path,
    {
      config: { operation: 'client-keys.list' },
      schema: {
        operationId: 'listClientKeys',
        summary: 'List the client keys of an organization',
        params: organizationPathOf(),
        querystring: clientKeys.querystring,
        response: { 200: clientKeyList, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const keys = clientKeys.read(request, reply, catalog.state.clientKeys.listing(request.organization.id));
      const uses = await readLastUses(request, reply, dependencies, keys);
      return reply
        .code(200)
        .send(keys.map((key) => presentClientKey(key, request.organization, uses, catalog.state)));
    },
  );

  app.post(
    path,
    {
      config: { operation: 'client-keys.create' },
      schema: {
        operationId: 'createClientKey',
        summary: 'Create a client key',
        params: organizationPathOf(),
        body: clientKeyBody,
        response: { 201: createdClientKey, ...errorAnswers },
      },
    },
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
    `${path}/:keyId`,
    {
      config: { operation: 'client-keys.revoke' },
      schema: {
        operationId: 'revokeClientKey',
        summary: 'Revoke a client key',
        params: organizationPathOf('keyId'),
        response: { 200: removedAs('revoked'), ...errorAnswers },
      },
    },
    async (request) => {
      const key = keyNamed(request, request.params.keyId);
      if (key.status !== 'revoked')
        await propose(request, dependencies, { type: 'client_key.revoked', entity: key.id, data: {} });
      return { id: key.id, status: 'revoked' } as const;
    },
  );

  function keyNamed({ organization }: FastifyRequest, id: string): ClientKey {
    const key = catalog.state.clientKeys.get(organization.id, id.toLowerCase());
    if (key === undefined) throw notFound();
    return key;
  }
};
