import type { LogEntry, Source } from '@tributary/core';

/**
 * When an entry that was read at `readAt` may be handed over, epoch ms. A source that cannot say leaves it to the stage
 * to meet the entry. It was appended before it was read, whatever its stamp says: a clock that was ahead for a while
 * would hold up all behind it for as long.
 */
export function dueAt(source: Source, entry: LogEntry, readAt: number): number {
  if (!source.dueAt) return 0;
  try {
    const due = source.dueAt(entry.timestamp > readAt ? { ...entry, timestamp: readAt } : entry);
    return Number.isFinite(due) ? due : 0;
  } catch {
    return 0;
  }
}

export interface Due {
  /** How many entries from the head on may be handed over now. */
  readonly count: number;
  /** When to look again; absent unless the head itself has to wait. */
  readonly wakeAt?: number;
}

/** A partition waits for its head, so what is due behind one that is not has to wait too. */
export function dueNow(
  source: Source,
  waiting: readonly { readonly entry: LogEntry }[],
  readAt: number,
  now: number,
): Due {
  if (!source.dueAt) return { count: waiting.length };
  for (const [count, { entry }] of waiting.entries()) {
    const due = dueAt(source, entry, readAt);
    if (due > now) return count === 0 ? { count, wakeAt: due } : { count };
  }
  return { count: waiting.length };
}
