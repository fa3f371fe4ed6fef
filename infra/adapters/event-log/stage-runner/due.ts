import type { LogEntry, Source } from '@tributary/core';

/**
 * When an entry that was read at `readAt` is due, epoch ms. It is due at once where the source throws for it, so that the
 * stage gets it. Its timestamp counts as at most `readAt`: the clock that stamped it may have been ahead, and would delay
 * all entries behind it.
 */
function dueAt(source: Source, entry: LogEntry, readAt: number): number {
  if (!source.dueAt) return 0;
  try {
    const due = source.dueAt(entry.timestamp > readAt ? { ...entry, timestamp: readAt } : entry);
    return Number.isFinite(due) ? due : 0;
  } catch {
    return 0;
  }
}

interface Due {
  /** How many entries from the first on are due. */
  readonly count: number;
  /** When the first is due; absent where it is. */
  readonly wakeAt?: number;
}

/** Entries of a partition stay in order: one that is not due delays those behind it. */
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
