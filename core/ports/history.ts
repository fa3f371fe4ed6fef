import type { JsonObject } from '../event/event.ts';

export const HISTORY_KINDS = ['violation', 'delivery', 'audit', 'contract', 'replay'] as const;
export type HistoryKind = (typeof HISTORY_KINDS)[number];

/**
 * An engine may index each facet and each pair of them: n facets cost it 1 + n + n(n-1)/2 rows of index, six 22. Of a
 * kind with a leading facet it need not index what is without it.
 */
export const MAX_HISTORY_FACETS = 6;

/** The facet that lists of a kind are always narrowed by where many entries are expected; with others, or alone. */
export const LEADING_FACET: Readonly<Partial<Record<HistoryKind, string>>> = { violation: 'contract_id' };

/** Something that happened in a workspace, or as an audit entry in an organization, and can be listed. */
export interface HistoryEntry {
  readonly kind: HistoryKind;
  /** Unique within the kind; writing it again replaces, never doubles. */
  readonly id: string;
  /** Of an audit entry also an organization's id: no workspace has the same. */
  readonly workspaceId: string;
  /** Epoch ms; the order of lists. Must not change between versions of one id. */
  readonly at: number;
  /** A write with a lower version than the stored one is ignored. */
  readonly version: number;
  /**
   * Values that lists can be narrowed by, e.g. `status`, `destination_id`, `contract_id`; at most `MAX_HISTORY_FACETS`.
   * Name only what lists are narrowed by: each makes every put dearer. The rest can be read from the body.
   */
  readonly facets: Readonly<Record<string, string>>;
  readonly body: JsonObject;
  /** What a list does not show and would be dear to read with every entry of a page: only `get`, and lists that ask for it, give it. */
  readonly detail?: JsonObject;
}

export interface HistoryQuery {
  readonly kind: HistoryKind;
  readonly workspaceId: string;
  /** All must match exactly. */
  readonly facets?: Readonly<Record<string, string>>;
  /** Epoch ms, inclusive. */
  readonly since?: number;
  /** Epoch ms, exclusive. */
  readonly until?: number;
  readonly limit: number;
  /** With the `detail` of each entry. Default false. */
  readonly details?: boolean;
  /** `next` of the page before. `InvalidInput` when it is not one. */
  readonly cursor?: string;
}

/** Which entries are counted, hour by hour. */
export interface HistoryCountQuery {
  readonly kind: HistoryKind;
  readonly workspaceId: string;
  /** All must match exactly. */
  readonly facets?: Readonly<Record<string, string>>;
  /** First hour, inclusive: the epoch ms at which it begins. */
  readonly fromHour: number;
  /** Last hour, inclusive. */
  readonly toHour: number;
}

export interface HistoryCount {
  /** The epoch ms at which the hour begins. */
  readonly hour: number;
  readonly count: number;
}

export interface HistoryPage {
  readonly entries: readonly HistoryEntry[];
  /**
   * Absent on the last page, and only there. A list narrowed by more than two facets may give a page with fewer entries
   * than `limit`, even none, that is not the last: an engine bounds how much it looks through for one page.
   */
  readonly next?: string;
}

/**
 * Promises: idempotent by (kind, id, version); lists are newest first (ties by id, descending), and a cursor neither repeats nor
 * skips an entry that existed when the first page was read. A `put` is durable when it resolves and listed within a
 * second. An entry is kept for the configured retention, at least, counted from the last put that was not ignored,
 * whatever its `at`: what is still changing does not vanish. A `put` does not hold up the thread for longer than some ms
 * at a time, however many entries it has; neither does `countByHour`, however many it counts.
 *
 * Errors: `Unavailable` (part of the entries may have been put; put all again), `InvalidInput` for a bad cursor, for an
 * entry with too many facets (no entry was put) and for one that the engine can never hold (others may have been put).
 *
 * An implementer must not let one workspace see another's entries, whatever the query.
 */
export interface History {
  put(entries: readonly HistoryEntry[]): Promise<void>;
  list(query: HistoryQuery): Promise<HistoryPage>;
  /** How many entries there are in each hour of their `at`, oldest hour first; hours without any are left out. */
  countByHour(query: HistoryCountQuery): Promise<readonly HistoryCount[]>;
  get(kind: HistoryKind, workspaceId: string, id: string): Promise<HistoryEntry | undefined>;
  close(): Promise<void>;
}
