import type { Clock, LogEntry, Source } from '@tributary/core';

type Read = { readonly entry: Pick<LogEntry, 'position' | 'timestamp'> };

/** All entries before this offset had been appended by this time, epoch ms. */
export interface KnownEnd {
  readonly offset: number;
  readonly at: number;
}

/**
 * When entries that were read at `readAt` were appended, epoch ms: never decreasing, whatever the clocks did that stamped
 * them. An entry was appended no later than those behind it, and than it was first known of.
 */
export function appendTimes(waiting: readonly Read[], readAt: number, known: KnownEnd): readonly number[] {
  const times = new Array<number>(waiting.length);
  let latest = readAt;
  for (let at = waiting.length - 1; at >= 0; at--) {
    const entry = waiting[at]?.entry;
    if (entry === undefined) continue;
    if (entry.position.offset < known.offset) latest = Math.min(latest, known.at);
    latest = Math.min(latest, entry.timestamp);
    times[at] = latest;
  }
  return times;
}

/** The append times of the entries that one partition returns, as they are read. */
export class AppendTimes {
  readonly #clock: Clock;
  readonly #end: () => Promise<number | undefined>;
  #known: KnownEnd = { offset: 0, at: 0 };

  /** `end`: the end of the partition; undefined where it is not known. */
  constructor(clock: Clock, end: () => Promise<number | undefined>) {
    this.#clock = clock;
    this.#end = end;
  }

  /** Asks for the end of the partition where a clock was ahead that stamped entries. */
  async of(waiting: readonly Read[]): Promise<readonly number[]> {
    const readAt = this.#clock();
    const last = waiting.at(-1)?.entry.position.offset ?? 0;
    const times = appendTimes(waiting, readAt, this.#known);
    if (last >= this.#known.offset && waiting.some(({ entry }) => entry.timestamp > readAt)) {
      const offset = await this.#end();
      if (offset !== undefined) this.#known = { offset, at: this.#clock() };
    }
    return times;
  }
}

interface Due {
  /** How many entries from the first on are due. */
  readonly count: number;
  /** When the first is due; absent where it is. */
  readonly wakeAt?: number;
}

/** `appendedAt`: the append times of the entries, see `appendTimes`. */
export function dueNow(
  source: Source,
  waiting: readonly Read[],
  appendedAt: readonly number[],
  now: number,
): Due {
  if (source.dueAt === undefined && source.end === undefined) return { count: waiting.length };
  for (const [count, { entry }] of waiting.entries()) {
    const due = dueAt(source, entry, appendedAt[count]);
    if (due > now) return count === 0 ? { count, wakeAt: due } : { count };
  }
  return { count: waiting.length };
}

function dueAt(source: Source, { position, timestamp }: Read['entry'], appendedAt = timestamp): number {
  if (position.offset >= (source.end?.(position.partition) ?? Number.POSITIVE_INFINITY))
    return Number.POSITIVE_INFINITY;
  return source.dueAt?.(appendedAt) ?? 0;
}
