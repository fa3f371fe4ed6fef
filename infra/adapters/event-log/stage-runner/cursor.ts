import type { LogEntry } from '@tributary/core';

/** The next entry to take from a partition: an offset, and the index inside that record. */
export interface Cursor {
  readonly offset: number;
  readonly index: number;
}

/** An entry as an engine hands it to the runner. */
export interface Taken {
  readonly entry: LogEntry;
  /** What to commit once this entry and all before it are done. */
  readonly after: Cursor;
}

/** Negative when `a` comes before `b`, 0 when they are the same. */
export function compareCursors(a: Cursor, b: Cursor): number {
  return a.offset - b.offset || a.index - b.index;
}

export function earlier(a: Cursor, b: Cursor): Cursor {
  return compareCursors(a, b) <= 0 ? a : b;
}
