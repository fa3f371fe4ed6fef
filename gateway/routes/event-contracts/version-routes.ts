import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { GatewayDependencies } from '../../dependencies.ts';
import { notFound } from '../../errors/api-error.ts';
import { entityOf } from '../../resources/catalog-entities.ts';
import { linkNext, pageRequest, withCursor } from '../../resources/pagination.ts';
import { errorAnswers, pathOf } from '../../resources/schemas.ts';
import { presentContract } from './presenter.ts';
import { contractList, contractResource, versionsQuery } from './schemas.ts';
import { versionOf, versionsOf } from './versions.ts';

const path = '/workspaces/:workspaceId/event-contracts/:contractId/versions';
const VERSION = /^[1-9]\d{0,8}$/;

/** What a contract was before it became what it is. */
export const versionRoutes: FastifyPluginAsyncTypebox<GatewayDependencies> = async (app, dependencies) => {
  const { catalog, history } = dependencies;

  app.get(
    path,
    {
      config: { operation: 'event-contracts.versions' },
      schema: {
        operationId: 'listContractVersions',
        summary: 'List the versions of a contract',
        params: pathOf('contractId'),
        querystring: versionsQuery,
        response: { 200: contractList, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const contract = entityOf(request, dependencies, 'contract', request.params.contractId);
      const asked = pageRequest(request.query);
      const page = await withCursor(() => versionsOf(contract, asked, { history }));
      linkNext(request, reply, page.next);
      return reply.code(200).send(page.items.map(presentContract));
    },
  );

  app.get(
    `${path}/:version`,
    {
      config: { operation: 'event-contracts.versions' },
      schema: {
        operationId: 'readContractVersion',
        summary: 'Read a version of a contract',
        params: pathOf('contractId', 'version'),
        response: { 200: contractResource, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const { contractId, version } = request.params;
      const contract = entityOf(request, dependencies, 'contract', contractId);
      const found = VERSION.test(version)
        ? await versionOf(contract, Number(version), { state: catalog.state, history })
        : undefined;
      if (found === undefined) throw notFound();
      return reply.code(200).send(presentContract(found));
    },
  );
};
