import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { HistoryCountQuery, HistoryEntry, HistoryQuery, Violation } from '@tributary/core';
import type { Static } from 'typebox';
import type { GatewayDependencies } from '../../dependencies.ts';
import { entityOf } from '../../resources/catalog-entities.ts';
import { linkNext, pageRequest, withCursor } from '../../resources/pagination.ts';
import { errorAnswers, pathOf } from '../../resources/schemas.ts';
import { HOURS, lookBack, parseInteger, parseTime } from '../../resources/values.ts';
import {
  presentViolation,
  presentViolationCount,
  violationCounts,
  violationHoursQuery,
  violationList,
  violationQuery,
} from './contract-resource.ts';

const path = '/workspaces/:workspaceId/event-contracts/:contractId/violations';

/** The violations of a contract, listed and counted by hour. */
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

type ContractId = { readonly id: string; readonly workspace_id: string };
type HoursQuery = Static<typeof violationHoursQuery>;

/** The history query for the violations of a contract. 400 for an invalid time. */
export function violationsOf(contract: ContractId, query: Static<typeof violationQuery>): HistoryQuery {
  const { limit, cursor } = pageRequest(query);
  const since = parseTime('since', query.since);
  const until = parseTime('until', query.until);
  return {
    kind: 'violation',
    workspaceId: contract.workspace_id,
    facets: facetsOf(contract, query),
    ...(since === undefined ? {} : { since }),
    ...(until === undefined ? {} : { until }),
    limit,
    ...(cursor === undefined ? {} : { cursor }),
  };
}

/** The query for their number by hour. */
export function countsOf(contract: ContractId, query: HoursQuery, now: number): HistoryCountQuery {
  const hours = parseInteger(query.hours, HOURS);
  return {
    kind: 'violation',
    workspaceId: contract.workspace_id,
    facets: facetsOf(contract, query),
    ...lookBack(now, hours),
  };
}

function facetsOf({ id }: ContractId, query: Omit<HoursQuery, 'hours'>): Readonly<Record<string, string>> {
  const { kind, action, path, contract_version, environment } = query;
  const version =
    contract_version === undefined
      ? undefined
      : String(
          parseInteger(contract_version, { name: 'contract_version', min: 1, max: 999_999_999, fallback: 1 }),
        );
  const facets = { contract_id: id, kind, action, path, contract_version: version, environment };
  const given = Object.entries(facets).filter((facet): facet is [string, string] => facet[1] !== undefined);
  return Object.fromEntries(given);
}

/** A violation as the history stage stores it. */
function violationIn(entry: HistoryEntry): Violation {
  return entry.body as unknown as Violation;
}
