import {
  type CanonicalEvent,
  type CatalogView,
  type Contract,
  type ContractWorkers,
  type Environment,
  eventName,
  iso,
} from '@tributary/core';
import type { Coverage, RecentEvents, RecentEventsQuery } from '../../event-search/recent-events.ts';

const DAY_MS = 24 * 60 * 60 * 1000;

/** What looks back, and for whom. */
export interface Sight {
  readonly state: CatalogView;
  readonly recent: RecentEvents;
  readonly contracts: Pick<ContractWorkers, 'evaluate'>;
  /** Epoch ms. */
  readonly now: number;
  /** Fires when nobody waits for the answer. */
  readonly disconnected: AbortSignal;
}

/** Which events a contract is for; `id` where it is one already. */
export type Pair = Pick<Contract, 'workspace_id' | 'event_type' | 'event_name'> & { readonly id?: string };

/** The recent events that a contract would judge, were it the newest. */
export function lookBack(
  state: CatalogView,
  pair: Pair,
  asked: { readonly since?: number | undefined; readonly environment?: Environment; readonly limit: number },
  now: number,
): RecentEventsQuery {
  return {
    workspaceId: pair.workspace_id,
    type: pair.event_type,
    ...(asked.environment === undefined ? {} : { environment: asked.environment }),
    since: asked.since ?? now - DAY_MS,
    limit: asked.limit,
    isWanted: (event) => isJudgedBy(state, pair, event),
  };
}

/** One without a name is for the names that have no contract of their own. */
function isJudgedBy(state: CatalogView, pair: Pair, event: CanonicalEvent): boolean {
  const name = eventName(event);
  if (pair.event_name !== '') return name === pair.event_name;
  const own = state.contractAt(pair.workspace_id, pair.event_type, name, Number.MAX_SAFE_INTEGER);
  return own === undefined || own.event_name === '' || own.id === pair.id;
}

export function presentCoverage({ since }: RecentEventsQuery, coverage: Coverage) {
  const { oldest, newest, omitted, records, bytes, stoppedBy } = coverage;
  return {
    since: iso(since),
    oldest,
    newest,
    omitted,
    records,
    bytes,
    complete: stoppedBy === null,
    stopped_by: stoppedBy,
  };
}
