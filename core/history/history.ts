import type { JsonObject } from '../event/event.ts';

export const HISTORY_KINDS = ['violation', 'delivery', 'audit'] as const;
export type HistoryKind = (typeof HISTORY_KINDS)[number];

/** Something that happened in a workspace and can be listed. */
export interface HistoryEntry {
  readonly kind: HistoryKind;
  /** Unique within the kind; writing it again replaces, never doubles. */
  readonly id: string;
  readonly workspaceId: string;
  /** Epoch ms; the order of lists. Must not change between versions of one id. */
  readonly at: number;
  /** A write with a lower version than the stored one is ignored. */
  readonly version: number;
  /** Values that lists can be narrowed by, e.g. `status`, `destination_id`, `contract_id`. */
  readonly facets: Readonly<Record<string, string>>;
  readonly body: JsonObject;
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
  /** `next` of the page before. `InvalidInput` when it is not one. */
  readonly cursor?: string;
}

export interface HistoryPage {
  readonly entries: readonly HistoryEntry[];
  /** Absent on the last page. */
  readonly next?: string;
}

/**
 * Promises: idempotent by (kind, id, version); lists are newest first (ties by id, descending), and a cursor neither repeats nor
 * skips an entry that existed when the first page was read. A `put` is durable when it resolves and listed within a
 * second. Entries are kept for the configured retention, at least.
 *
 * Errors: `Unavailable` (part of the entries may have been put; put all again), `InvalidInput` for a bad cursor.
 *
 * An implementer must not let one workspace see another's entries, whatever the query.
 */
export interface History {
  put(entries: readonly HistoryEntry[]): Promise<void>;
  list(query: HistoryQuery): Promise<HistoryPage>;
  get(kind: HistoryKind, workspaceId: string, id: string): Promise<HistoryEntry | undefined>;
  close(): Promise<void>;
}
