import type { HistoryCountQuery, HistoryEntry, HistoryQuery, Violation } from '@tributary/core';
import type { Static } from 'typebox';
import { pageRequest } from '../../resources/pagination.ts';
import { HOURS, lookBack, parseInteger, parseTime } from '../../resources/values.ts';
import type { violationHoursQuery, violationQuery } from './schemas.ts';

type ContractId = { readonly id: string; readonly workspace_id: string };
type HoursQuery = Static<typeof violationHoursQuery>;

/** The recorded violations of one contract that a query asks for; 400 for a time that is none. */
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

/** The same counted, in the current hour and those before it. */
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

/** A violation as the history stage wrote it down. */
export function violationIn(entry: HistoryEntry): Violation {
  return entry.body as unknown as Violation;
}
