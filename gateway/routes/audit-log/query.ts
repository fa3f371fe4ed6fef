import type { HistoryQuery } from '@tributary/core';
import type { Static } from 'typebox';
import { pageRequest } from '../../resources/pagination.ts';
import { parseTime } from '../../resources/values.ts';
import type { auditQuery } from './schemas.ts';

const NARROWING = ['actor', 'entity_type', 'entity_id', 'action'] as const;

/** The entries of one workspace or organization that a query asks for; 400 for a time that is none. */
export function auditEntriesOf(scopeId: string, query: Static<typeof auditQuery>): HistoryQuery {
  const { limit, cursor } = pageRequest(query);
  const since = parseTime('since', query.since);
  const until = parseTime('until', query.until);
  const facets = NARROWING.flatMap((name) => {
    const value = query[name];
    return value === undefined ? [] : [[name, value.toLowerCase()] as const];
  });
  return {
    kind: 'audit',
    workspaceId: scopeId,
    facets: Object.fromEntries(facets),
    ...(since === undefined ? {} : { since }),
    ...(until === undefined ? {} : { until }),
    limit,
    ...(cursor === undefined ? {} : { cursor }),
  };
}
