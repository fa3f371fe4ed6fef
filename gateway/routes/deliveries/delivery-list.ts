import {
  DEAD_CAUSES,
  type DeliveryOutcome,
  type History,
  type HistoryQuery,
  outcomeOfEntry,
} from '@tributary/core';
import { Type } from 'typebox';
import { invalidRequest } from '../../errors/api-error.ts';
import { type PageRequest, withCursor } from '../../resources/pagination.ts';
import { oneOf, optional } from '../../resources/schemas.ts';
import { parseTime, timeText } from '../../resources/values.ts';

/** The filter of lists, redrives and discards. Query and body have the same fields. */
const fields = {
  destination_id: Type.String({ format: 'uuid' }),
  rule_id: Type.String({ format: 'uuid' }),
  cause: oneOf(DEAD_CAUSES, 'The cause of their death.'),
  reason: Type.String({ minLength: 1, maxLength: 500, description: 'Part of the reason, in any case.' }),
  group: Type.String({
    pattern: '^[\\w-]{22}$',
    description: 'Only those of a group of `GET deliveries/groups`.',
    examples: ['Zk3v0kq9dT1mJX2bq4uR7w'],
  }),
  since: timeText('ISO 8601; their events were received then or later.'),
  until: timeText('ISO 8601; their events were received before then.'),
};

export const filterQuery = {
  destination_id: Type.Optional(fields.destination_id),
  rule_id: Type.Optional(fields.rule_id),
  cause: Type.Optional(fields.cause),
  reason: Type.Optional(fields.reason),
  group: Type.Optional(fields.group),
  since: Type.Optional(fields.since),
  until: Type.Optional(fields.until),
};

export const filterBody = {
  destination_id: optional(fields.destination_id),
  rule_id: optional(fields.rule_id),
  cause: optional(fields.cause),
  reason: optional(fields.reason),
  group: optional(fields.group),
  since: optional(fields.since),
  until: optional(fields.until),
};

const NAMES = ['destination_id', 'rule_id', 'cause', 'reason', 'group', 'since', 'until'] as const;
type Name = (typeof NAMES)[number];

/** A filter of a query or body. */
type StatedFilter = { readonly [N in Name]?: string | null | undefined };

export type DeliveryFilter = { readonly [N in Name]?: string };

/** Merges the filters of query and body. 400 when they contradict each other, and for an invalid time in the body. */
export function filterOf(query: StatedFilter, body: StatedFilter | null | undefined): DeliveryFilter {
  for (const name of ['since', 'until'] as const) parseTime(`/${name}`, body?.[name] ?? undefined);
  const entries = NAMES.flatMap((name) => {
    const read = (stated: string | null | undefined) =>
      name.endsWith('_id') ? stated?.toLowerCase() : stated;
    const stated = statedOnce(name, read(query[name]), read(body?.[name]));
    return stated === undefined ? [] : [[name, stated]];
  });
  return Object.fromEntries(entries) as DeliveryFilter;
}

/** The value of a field that query and body may have. 400 when they contradict each other. */
export function statedOnce(
  name: string,
  inQuery: string | null | undefined,
  inBody: string | null | undefined,
): string | undefined {
  if (inQuery != null && inBody != null && inQuery !== inBody)
    throw invalidRequest({ path: `/${name}`, message: 'differs from the value in the query' });
  return inBody ?? inQuery ?? undefined;
}

/** The part of a filter that history evaluates. 400 for an invalid time. */
export function historyQuery(
  workspaceId: string,
  filter: DeliveryFilter,
  status: string | undefined,
): Omit<HistoryQuery, 'limit'> {
  const { destination_id, rule_id, cause, group } = filter;
  const since = parseTime('since', filter.since);
  const until = parseTime('until', filter.until);
  return {
    kind: 'delivery',
    workspaceId,
    facets: {
      ...(status === undefined ? {} : { status }),
      ...(destination_id === undefined ? {} : { destination_id }),
      ...(rule_id === undefined ? {} : { rule_id }),
      ...(cause === undefined ? {} : { cause }),
    },
    ...(group === undefined ? {} : { group }),
    ...(since === undefined ? {} : { since }),
    ...(until === undefined ? {} : { until }),
  };
}

/** The part of a filter that history cannot evaluate: the reason. */
export function selects(filter: DeliveryFilter): (outcome: Pick<DeliveryOutcome, 'reason'>) => boolean {
  const part = filter.reason?.toLowerCase();
  return ({ reason }) => part === undefined || (reason ?? '').toLowerCase().includes(part);
}

/** Entries that one call reads for a filter by reason, at most, and those of one page. */
const MAX_READ = 2_000;
const PAGE = 500;

interface ListedPage {
  readonly outcomes: readonly DeliveryOutcome[];
  readonly next: string | undefined;
}

/**
 * A page of outcomes, newest first, without their events. With a filter by reason, which is not indexed, a page may be
 * short without being the last, as a call reads `MAX_READ` entries at most.
 */
export async function listOutcomes(
  history: Pick<History, 'list'>,
  workspaceId: string,
  filter: DeliveryFilter & { readonly status?: string | undefined },
  { limit, cursor }: PageRequest,
): Promise<ListedPage> {
  const query = historyQuery(workspaceId, filter, filter.status);
  const isSelected = selects(filter);
  const outcomes: DeliveryOutcome[] = [];
  let next = cursor;
  for (let readCount = 0; readCount < MAX_READ; ) {
    const wanted = limit - outcomes.length;
    const size = filter.reason === undefined ? wanted : Math.min(wanted, PAGE);
    const position = next === undefined ? {} : { cursor: next };
    const page = await withCursor(() => history.list({ ...query, limit: size, ...position }));
    outcomes.push(...page.entries.map(outcomeOfEntry).filter(isSelected));
    readCount += size;
    next = page.next;
    if (next === undefined || outcomes.length >= limit || filter.reason === undefined) break;
  }
  return { outcomes, next };
}
