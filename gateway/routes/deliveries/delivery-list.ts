import {
  DEAD_CAUSES,
  type History,
  type HistoryQuery,
  type ListedOutcome,
  listedOutcomeOf,
} from '@tributary/core';
import { Type } from 'typebox';
import { invalidRequest } from '../../errors/api-error.ts';
import { type PageRequest, withCursor } from '../../resources/pagination.ts';
import { oneOf, optional } from '../../resources/schemas.ts';
import { parseTime, timeText } from '../../resources/values.ts';

/** What narrows a list of deliveries, or says which of the dead are meant. Query and body take the same. */
const fields = {
  destination_id: Type.String({ format: 'uuid' }),
  rule_id: Type.String({ format: 'uuid' }),
  cause: oneOf(DEAD_CAUSES, 'What made them dead.'),
  reason: Type.String({ minLength: 1, maxLength: 500, description: 'Part of the reason, in any case.' }),
  since: timeText('ISO 8601; their events were received then or later.'),
  until: timeText('ISO 8601; their events were received before then.'),
};

export const filterQuery = {
  destination_id: Type.Optional(fields.destination_id),
  rule_id: Type.Optional(fields.rule_id),
  cause: Type.Optional(fields.cause),
  reason: Type.Optional(fields.reason),
  since: Type.Optional(fields.since),
  until: Type.Optional(fields.until),
};

export const filterBody = {
  destination_id: optional(fields.destination_id),
  rule_id: optional(fields.rule_id),
  cause: optional(fields.cause),
  reason: optional(fields.reason),
  since: optional(fields.since),
  until: optional(fields.until),
};

const NAMES = ['destination_id', 'rule_id', 'cause', 'reason', 'since', 'until'] as const;
type Name = (typeof NAMES)[number];

/** A filter as a query or a body says it. */
type StatedFilter = { readonly [N in Name]?: string | null | undefined };

export type DeliveryFilter = { readonly [N in Name]?: string };

/** What the query or the body says; 400 where each says something else, and for a time in the body that is none. */
export function filterOf(query: StatedFilter, body: StatedFilter | null | undefined): DeliveryFilter {
  for (const name of ['since', 'until'] as const) parseTime(`/${name}`, body?.[name] ?? undefined);
  const entries = NAMES.flatMap((name) => {
    const read = (said: string | null | undefined) => (name.endsWith('_id') ? said?.toLowerCase() : said);
    const said = saidOnce(name, read(query[name]), read(body?.[name]));
    return said === undefined ? [] : [[name, said]];
  });
  return Object.fromEntries(entries) as DeliveryFilter;
}

/** One of two places may say something, or both the same; 400 otherwise. */
export function saidOnce(
  name: string,
  inQuery: string | null | undefined,
  inBody: string | null | undefined,
): string | undefined {
  if (inQuery && inBody && inQuery !== inBody)
    throw invalidRequest({ path: `/${name}`, message: 'is another one in the query' });
  return inBody ?? inQuery ?? undefined;
}

/** The filter as far as history narrows by it; 400 for a time that is none. */
export function narrowed(
  workspaceId: string,
  filter: DeliveryFilter,
  status: string | undefined,
): Omit<HistoryQuery, 'limit'> {
  const { destination_id, rule_id, cause } = filter;
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
    ...(since === undefined ? {} : { since }),
    ...(until === undefined ? {} : { until }),
  };
}

/** Whether an outcome is meant as far as history does not know: by its reason. */
export function meant(filter: DeliveryFilter): (outcome: Pick<ListedOutcome, 'reason'>) => boolean {
  const part = filter.reason?.toLowerCase();
  return ({ reason }) => part === undefined || (reason ?? '').toLowerCase().includes(part);
}

/** Entries one call looks at for a reason, at most, and how many of them at a time. */
const MAX_LOOKED_AT = 2_000;
const PAGE = 500;

interface ListedPage {
  readonly outcomes: readonly ListedOutcome[];
  readonly next: string | undefined;
}

/**
 * A page of outcomes, newest first, without their events. One narrowed by a reason may hold fewer than were asked for
 * and not be the last: reasons are not indexed, and a call looks at so many entries.
 */
export async function listOutcomes(
  history: Pick<History, 'list'>,
  workspaceId: string,
  filter: DeliveryFilter & { readonly status?: string | undefined },
  { limit, cursor }: PageRequest,
): Promise<ListedPage> {
  const query = narrowed(workspaceId, filter, filter.status);
  const isMeant = meant(filter);
  const outcomes: ListedOutcome[] = [];
  let next = cursor;
  for (let lookedAt = 0; lookedAt < MAX_LOOKED_AT; ) {
    const wanted = limit - outcomes.length;
    const size = filter.reason === undefined ? wanted : Math.min(wanted, PAGE);
    const place = next === undefined ? {} : { cursor: next };
    const page = await withCursor(() => history.list({ ...query, limit: size, ...place }));
    outcomes.push(...page.entries.map(listedOutcomeOf).filter(isMeant));
    lookedAt += size;
    next = page.next;
    if (next === undefined || outcomes.length >= limit || filter.reason === undefined) break;
  }
  return { outcomes, next };
}
