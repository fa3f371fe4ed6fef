import type { LogEntry } from '@tributary/core';

/** The next entry of a partition: an offset, and the index within that record. */
export interface Cursor {
  readonly offset: number;
  readonly index: number;
}

/** An entry as an engine reads it. */
export interface Taken {
  readonly entry: LogEntry;
  /** The position to commit once this entry and all before it are done. */
  readonly after: Cursor;
  /** Positions in other partitions that the stage has to reach first, as `OwnedPartition.barrier` reads them. */
  readonly bounds?: string;
}

/** Negative when `a` comes before `b`, 0 when they are the same. */
export function compareCursors(a: Cursor, b: Cursor): number {
  return a.offset - b.offset || a.index - b.index;
}

export function earlier(a: Cursor, b: Cursor): Cursor {
  return compareCursors(a, b) <= 0 ? a : b;
}
