import {
  defined,
  ENVIRONMENTS,
  type HistoryCount,
  type HistoryCountQuery,
  type HistoryEntry,
  type HistoryQuery,
  iso,
  mapConcurrently,
  VIOLATION_KINDS,
  type Violation,
} from '@tributary/core';
import { type Static, Type } from 'typebox';
import type { Routes } from '../dependencies.ts';
import { READS_AT_ONCE } from '../limits/turns.ts';
import { entityOf } from '../resources/catalog-entities.ts';
import { linkNext, pageQuery, pageRequest, withCursor } from '../resources/lists.ts';
import {
  closed,
  documentedAs,
  EXAMPLE_IDS,
  HOURS,
  hoursText,
  idsText,
  listOf,
  lookBack,
  oneOf,
  operation,
  parseIds,
  parseInteger,
  string,
  time,
  timeRange,
  timeText,
  uuid,
} from '../resources/schemas.ts';
import { ACTIONS, eventType } from './contract-fields.ts';

const violationFilter = {
  kind: Type.Optional(oneOf(VIOLATION_KINDS)),
  action: Type.Optional(oneOf(ACTIONS)),
  path: Type.Optional(string('Exactly this path of the event.')),
  contract_version: Type.Optional(
    Type.String({
      description: 'Found by this version.',
      ...documentedAs({ type: 'integer', minimum: 1, maximum: 999_999_999 }),
    }),
  ),
  environment: Type.Optional(oneOf(ENVIRONMENTS, 'Default: both.')),
};

const violationHoursQuery = closed({
  ...violationFilter,
  hours: hoursText,
});

const violationCounts = listOf(
  Type.Object({ hour_bucket: time, violation_count: Type.Integer() }, { title: 'ViolationCount' }),
  'Oldest hour first; hours without any are left out.',
);

const violationQuery = closed({
  ...pageQuery,
  ...violationFilter,
  since: Type.Optional(timeText('ISO 8601; received then or later.')),
  until: Type.Optional(timeText('ISO 8601; received before then.')),
});

const violationResource = Type.Object(
  {
    id: uuid,
    contract_id: uuid,
    contract_version: Type.Integer(),
    message_id: Type.String(),
    environment: oneOf(ENVIRONMENTS),
    event_type: eventType,
    event_name: Type.String(),
    kind: oneOf(VIOLATION_KINDS),
    path: string('JSON pointer below `properties` or `traits`.'),
    message: Type.String(),
    action: oneOf(ACTIONS),
    received_at: time,
  },
  { title: 'Violation' },
);

export const violationList = listOf(violationResource);

function presentViolationCount({ hour, count }: HistoryCount): Static<typeof violationCounts>[number] {
  return { hour_bucket: iso(hour), violation_count: count };
}

const contractViolationsQuery = closed({
  environment: violationFilter.environment,
  hours: hoursText,
  ids: { ...idsText('Ids of contracts', 'those that do not exist'), examples: EXAMPLE_IDS },
});

const contractViolationCounts = listOf(
  Type.Object(
    { contract_id: uuid, total: Type.Integer(), hourly: violationCounts },
    { title: 'ContractViolationCounts' },
  ),
  'In the order of `ids`.',
);

const path = '/workspaces/:workspaceId/event-contracts/:contractId/violations';

/** The violations of a contract, listed and counted by hour. */
export const violationRoutes: Routes = async (app, dependencies) => {
  const { history, clock } = dependencies;

  app.get(
    path,
    operation('event-contracts.violations', 'listViolations', 'List the violations of a contract', {
      querystring: violationQuery,
      response: { 200: violationList },
    }),
    async (request, reply) => {
      const contract = entityOf(request, dependencies, 'contract');
      const query = violationsOf(contract, request.query);
      const page = await withCursor(() => history.list(query));
      linkNext(request, reply, page.next);
      return page.entries.map(violationIn);
    },
  );

  app.get(
    '/workspaces/:workspaceId/event-contracts/violations/hourly',
    operation(
      'event-contracts.violations',
      'countViolationsOfContracts',
      'Count the violations of several contracts by hour',
      { querystring: contractViolationsQuery, response: { 200: contractViolationCounts } },
    ),
    async ({ query, workspace }) => {
      const { ids, ...others } = query;
      const contracts = [...parseIds(ids)].flatMap(
        (id) => dependencies.catalog.state.entity('contract', workspace.id, id) ?? [],
      );
      return mapConcurrently(contracts, READS_AT_ONCE, async (contract) => {
        const counts = await history.countByHour(countsOf(contract, others, clock()));
        const total = counts.reduce((sum, { count }) => sum + count, 0);
        return { contract_id: contract.id, total, hourly: counts.map(presentViolationCount) };
      });
    },
  );

  app.get(
    `${path}/hourly`,
    operation('event-contracts.violations', 'countViolations', 'Count the violations of a contract by hour', {
      querystring: violationHoursQuery,
      response: { 200: violationCounts },
    }),
    async (request) => {
      const contract = entityOf(request, dependencies, 'contract');
      const counts = await history.countByHour(countsOf(contract, request.query, clock()));
      return counts.map(presentViolationCount);
    },
  );
};

type ContractId = { readonly id: string; readonly workspace_id: string };
type HoursQuery = Static<typeof violationHoursQuery>;

/** The history query for the violations of a contract. 400 for an invalid time. */
function violationsOf(contract: ContractId, query: Static<typeof violationQuery>): HistoryQuery {
  return {
    kind: 'violation',
    workspaceId: contract.workspace_id,
    facets: facetsOf(contract, query),
    ...timeRange(query),
    ...pageRequest(query),
  };
}

function countsOf(contract: ContractId, query: HoursQuery, now: number): HistoryCountQuery {
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
  const given = defined({ kind, action, path, contract_version: version, environment });
  return { contract_id: id, ...given };
}

function violationIn(entry: HistoryEntry): Violation {
  return entry.body as unknown as Violation;
}
