import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { type ClientKey, makeKey, newId } from '@tributary/core';
import type { FastifyRequest } from 'fastify';
import { accountOf } from '../../authentication/caller.ts';
import type { GatewayDependencies } from '../../dependencies.ts';
import { notFound } from '../../errors/api-error.ts';
import { propose } from '../../resources/catalog-entities.ts';
import { linkNext, pageOf, pageQuery, pageRequest } from '../../resources/pagination.ts';
import { closed, errorAnswers, organizationPathOf, removedAs } from '../../resources/schemas.ts';
import { KEY_BYTES } from '../keys/key-resource.ts';
import { presentClientKey } from './presenter.ts';
import { clientKeyBody, clientKeyList, createdClientKey } from './schemas.ts';

const path = '/organizations/:organizationId/client-keys';

/** `/organizations/:organizationId/client-keys`: the raw key is shown once, revoking is for good. */
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
        querystring: closed(pageQuery),
        response: { 200: clientKeyList, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const keys = catalog.state.clientKeys.listing(request.organization.id);
      const page = pageOf(keys, pageRequest(request.query));
      linkNext(request, reply, page.next);
      return reply.code(200).send(page.items.map((key) => presentClientKey(key, catalog.state)));
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
      return reply.code(201).send({ ...presentClientKey(keyNamed(request, id), catalog.state), key: raw });
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
