import { type History, type ListedOutcome, listedOutcomeOf } from '@tributary/core';
import { type PageRequest, withCursor } from '../../resources/pagination.ts';
import { type DeliveryFilter, meant, narrowed } from './filter.ts';

/** Entries one call looks at for a reason, at most, and how many of them at a time. */
const MAX_LOOKED_AT = 2_000;
const PAGE = 500;

export interface ListedPage {
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
