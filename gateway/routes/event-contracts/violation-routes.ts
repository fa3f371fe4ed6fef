import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { GatewayDependencies } from '../../dependencies.ts';
import { entityOf } from '../../resources/catalog-entities.ts';
import { linkNext, withCursor } from '../../resources/pagination.ts';
import { errorAnswers, pathOf } from '../../resources/schemas.ts';
import { presentViolation, presentViolationCount } from './presenter.ts';
import { violationCounts, violationHoursQuery, violationList, violationQuery } from './schemas.ts';
import { countsOf, violationIn, violationsOf } from './violations.ts';

const path = '/workspaces/:workspaceId/event-contracts/:contractId/violations';

/** What broke a contract, one by one and counted. */
export const violationRoutes: FastifyPluginAsyncTypebox<GatewayDependencies> = async (app, dependencies) => {
  const { history, clock } = dependencies;

  app.get(
    path,
    {
      config: { operation: 'event-contracts.violations' },
      schema: {
        operationId: 'listViolations',
        summary: 'List the violations of a contract',
        params: pathOf('contractId'),
        querystring: violationQuery,
        response: { 200: violationList, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const contract = entityOf(request, dependencies, 'contract', request.params.contractId);
      const query = violationsOf(contract, request.query);
      const page = await withCursor(() => history.list(query));
      linkNext(request, reply, page.next);
      return reply.code(200).send(page.entries.map((entry) => presentViolation(violationIn(entry))));
    },
  );

  app.get(
    `${path}/hourly`,
    {
      config: { operation: 'event-contracts.violations' },
      schema: {
        operationId: 'countViolations',
        summary: 'Count the violations of a contract by hour',
        params: pathOf('contractId'),
        querystring: violationHoursQuery,
        response: { 200: violationCounts, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const contract = entityOf(request, dependencies, 'contract', request.params.contractId);
      const counts = await history.countByHour(countsOf(contract, request.query, clock()));
      return reply.code(200).send(counts.map(presentViolationCount));
    },
  );
};
