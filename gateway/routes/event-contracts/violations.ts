import type { HistoryEntry, HistoryQuery, Violation } from '@tributary/core';
import type { Static } from 'typebox';
import { pageRequest } from '../../http/lists.ts';
import { parseTime } from '../../http/times.ts';
import type { violationQuery } from './schemas.ts';

/** The recorded violations of one contract that a query asks for; 400 for a time that is none. */
export function violationsOf(
  contract: { readonly id: string; readonly workspace_id: string },
  query: Static<typeof violationQuery>,
): HistoryQuery {
  const { limit, cursor } = pageRequest(query);
  const { kind, action, path } = query;
  const since = parseTime('since', query.since);
  const until = parseTime('until', query.until);
  return {
    kind: 'violation',
    workspaceId: contract.workspace_id,
    facets: {
      contract_id: contract.id,
      ...(kind === undefined ? {} : { kind }),
      ...(action === undefined ? {} : { action }),
      ...(path === undefined ? {} : { path }),
    },
    ...(since === undefined ? {} : { since }),
    ...(until === undefined ? {} : { until }),
    limit,
    ...(cursor === undefined ? {} : { cursor }),
  };
}

/** A violation as the history stage wrote it down. */
export function violationIn(entry: HistoryEntry): Violation {
  return entry.body as unknown as Violation;
}
