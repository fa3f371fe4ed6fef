import { hash } from 'node:crypto';
import type { JsonObject } from '../event/event.ts';

const HISTORY_KINDS = ['violation', 'delivery', 'audit', 'contract', 'replay', 'load'] as const;
export type HistoryKind = (typeof HISTORY_KINDS)[number];

/**
 * Bound on the facets of an entry. An engine may index each facet and each pair of them: n facets take 1 + n +
 * n(n-1)/2 index rows, six take 22. Of a kind with a leading facet it need not index rows without it.
 */
export const MAX_HISTORY_FACETS = 6;

/** The facet that all lists of a kind filter by, alone or with others, because many entries are expected. */
export const LEADING_FACET: Readonly<Partial<Record<HistoryKind, string>>> = { violation: 'contract_id' };

/** An entry of a workspace's history, or as an audit entry of an organization's. */
export interface HistoryEntry {
  readonly kind: HistoryKind;
  /** Unique within the kind; writing it again replaces the entry. */
  readonly id: string;
  /** For an audit entry possibly an organization's id, which no workspace shares. */
  readonly workspaceId: string;
  /** Epoch ms; the order of lists. Must not change between versions of one id. */
  readonly at: number;
  /** A write with a lower version than the stored one is ignored. */
  readonly version: number;
  /**
   * Values that lists can filter by, e.g. `status`, `destination_id`, `contract_id`; at most `MAX_HISTORY_FACETS`.
   * Each adds cost to every put, so name only those that lists use; the rest is in the body.
   */
  readonly facets: Readonly<Record<string, string>>;
  /**
   * The values by which `groups` counts the entry together with others; at most some thousand different ones are expected
   * of a workspace. The values of facets among them must be those of the entry. Not returned by reads.
   */
  readonly group?: Readonly<Record<string, string>>;
  readonly body: JsonObject;
  /**
   * Data that lists do not show and that would be expensive to read for every entry of a page: only returned by `get`
   * and on request by `list`.
   */
  readonly detail?: JsonObject;
}

export interface HistoryQuery {
  readonly kind: HistoryKind;
  readonly workspaceId: string;
  /** All must match exactly. */
  readonly facets?: Readonly<Record<string, string>>;
  /** Only entries of the group with this id. */
  readonly group?: string;
  /** Epoch ms, inclusive. */
  readonly since?: number;
  /** Epoch ms, exclusive. */
  readonly until?: number;
  readonly limit: number;
  /** Include the `detail` of each entry. Default false. */
  readonly details?: boolean;
  /** `next` of the previous page. `InvalidInput` for any other text. */
  readonly cursor?: string;
}

/** A count of entries by hour. */
export interface HistoryCountQuery extends Pick<HistoryQuery, 'kind' | 'workspaceId' | 'facets'> {
  /** Start of the first hour, inclusive, epoch ms. */
  readonly fromHour: number;
  /** Start of the last hour, inclusive, epoch ms. */
  readonly toHour: number;
}

export interface HistoryCount {
  /** Start of the hour, epoch ms. */
  readonly hour: number;
  readonly count: number;
}

/** The groups of a workspace's entries. */
export interface HistoryGroupsQuery {
  readonly kind: HistoryKind;
  readonly workspaceId: string;
  /** Only groups with these values, of names that are facets of the entries. */
  readonly values?: Readonly<Record<string, string>>;
  /** Groups at most, those with the most entries. */
  readonly limit: number;
}

/** Entries with the same values. */
export interface HistoryGroup {
  /** `groupIdOf` its values. */
  readonly id: string;
  readonly values: Readonly<Record<string, string>>;
  readonly count: number;
  /** `at` of its oldest and of its newest entry, epoch ms. */
  readonly firstAt: number;
  readonly lastAt: number;
  /** The id of its newest entry. */
  readonly newest: string;
}

export interface HistoryGroups {
  /** Most entries first, then by id. */
  readonly groups: readonly HistoryGroup[];
  /** Whether there are further groups beyond the limit. */
  readonly more: boolean;
}

/** The id of a group: the same for the same values, in any order. */
export function groupIdOf(values: Readonly<Record<string, string>>): string {
  const sorted = Object.entries(values).sort(([a], [b]) => (a < b ? -1 : 1));
  return hash('sha256', JSON.stringify(sorted), 'base64url').slice(0, 22);
}

export interface HistoryPage {
  readonly entries: readonly HistoryEntry[];
  /**
   * Absent on the last page only. A list with more than two facets may return a page with fewer entries than `limit`,
   * even none, before the last one: an engine bounds the work for one page.
   */
  readonly next?: string;
}

/**
 * Stores what happened, for lists.
 *
 * Promises:
 * - Idempotent by (kind, id, version).
 * - Lists are newest first (ties by id, descending). A cursor neither repeats nor skips an entry that existed when
 *   the first page was read.
 * - A `put` is durable when it resolves, and listed within a second.
 * - An entry is kept at least for the configured retention after the last put that was not ignored, whatever its
 *   `at`: entries that still change are not removed.
 * - `groups` counts exactly the current version of each entry that is listed: one that was put again with another group, or
 *   without one, has left its old group. Entries that an older release put have no group.
 * - Neither `put` nor `countByHour` blocks the thread for longer than a few ms at a time, whatever the number of
 *   entries.
 *
 * Errors: `Unavailable` (some of the entries may have been put; put all again), `InvalidInput` for a bad cursor, for
 * an entry with too many facets (nothing was put) and for one that the engine can never store (others may have been
 * put).
 *
 * An implementer must not let one workspace see another's entries, whatever the query.
 */
export interface History {
  put(entries: readonly HistoryEntry[]): Promise<void>;
  list(query: HistoryQuery): Promise<HistoryPage>;
  /** Number of entries by hour of `at`, oldest hour first, without empty hours. */
  countByHour(query: HistoryCountQuery): Promise<readonly HistoryCount[]>;
  /** The entries that have a group, by group. */
  groups(query: HistoryGroupsQuery): Promise<HistoryGroups>;
  get(kind: HistoryKind, workspaceId: string, id: string): Promise<HistoryEntry | undefined>;
  close(): Promise<void>;
}
