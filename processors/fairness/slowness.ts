import type { Clock, LogEntry } from '@tributary/core';
import Denque from 'denque';

/** How long something stays slow after slow work, ms: the first time, and at most after repetitions. */
const SLOW_FOR_MS = 1_000;
const SLOW_FOR_AT_MOST_MS = 30_000;

/** When a destination or a transformation was slow last. Times are ms of a monotonic clock. */
export interface Slowness {
  readonly until: number;
  readonly forMs: number;
}

/**
 * The slowness after slow work. A single hiccup is forgiven soon; what is slow at each new try is tried ever less often. Work that
 * began before the slowness was found adds nothing.
 */
export function slownessAfter(known: Slowness | undefined, startedAt: number, now: number): Slowness {
  if (known !== undefined && startedAt < known.until - known.forMs) return known;
  const isAgain = known !== undefined && !isForgotten(known, now);
  const forMs = isAgain ? Math.min(known.forMs * 2, SLOW_FOR_AT_MOST_MS) : SLOW_FOR_MS;
  return { until: now + forMs, forMs };
}

/** It was quick for as long as it had been treated as slow. */
function isForgotten({ until, forMs }: Slowness, now: number): boolean {
  return now >= until + forMs;
}

/** Events of one transformation and partition. */
interface Turns {
  /** Bytes of the work under way. */
  bytes: number;
  /** Those that wait for it, in their order. */
  readonly waiting: Denque<{ readonly bytes: number; resolve(end: (() => void) | undefined): void }>;
}

/**
 * Shares the windows of the stage `route` between transformations. One that is quick and busy waits for its own earlier work.
 * One whose work takes long is slow for a while, as each try may delay the commits of the window: its events go to the slow
 * queue, so that it delays only other slow ones.
 */
export class TransformationTurns {
  readonly #elapsed: Clock;
  readonly #shareBytes: number;
  /** How long work may take before its transformation is slow, ms. */
  readonly slowAfterMs: number;
  readonly #turns = new Map<string, Turns>();
  readonly #slowness = new Map<string, Slowness>();

  /** `elapsed`: ms of a monotonic clock. `shareBytes`: of a partition that one transformation may have under way. */
  constructor(elapsed: Clock, shareBytes: number, slowAfterMs: number) {
    this.#elapsed = elapsed;
    this.#shareBytes = shareBytes;
    this.slowAfterMs = slowAfterMs;
  }

  /**
   * Resolves once work for a transformation may begin on an entry whose value has so many bytes, to what ends it; to undefined
   * where the entry belongs into the slow queue.
   */
  enter({ position }: LogEntry, id: string, bytes: number): Promise<(() => void) | undefined> {
    if (this.#isSlow(id)) return Promise.resolve(undefined);
    const key = `${position.topic}/${position.partition}/${id}`;
    const turns = this.#turns.get(key) ?? { bytes: 0, waiting: new Denque() };
    this.#turns.set(key, turns);
    if (turns.waiting.isEmpty() && this.#hasRoom(turns, bytes))
      return Promise.resolve(this.#begin(key, turns, id, bytes));
    return new Promise((resolve) => {
      turns.waiting.push({ bytes, resolve });
    });
  }

  /** One piece of any size has room alone: large events would never be tried otherwise. */
  #hasRoom(turns: Turns, bytes: number): boolean {
    return turns.bytes === 0 || turns.bytes + bytes <= this.#shareBytes;
  }

  #begin(key: string, turns: Turns, id: string, bytes: number): () => void {
    const startedAt = this.#elapsed();
    turns.bytes += bytes;
    return () => {
      turns.bytes -= bytes;
      if (this.#elapsed() - startedAt > this.slowAfterMs) this.#foundSlow(id, startedAt);
      const isSlow = this.#isSlow(id);
      for (
        let first = turns.waiting.peekFront();
        first !== undefined && (isSlow || this.#hasRoom(turns, first.bytes));
        first = turns.waiting.peekFront()
      ) {
        turns.waiting.shift();
        first.resolve(isSlow ? undefined : this.#begin(key, turns, id, first.bytes));
      }
      if (turns.bytes === 0) this.#turns.delete(key);
    };
  }

  #isSlow(id: string): boolean {
    const known = this.#slowness.get(id);
    return known !== undefined && this.#elapsed() < known.until;
  }

  #foundSlow(id: string, startedAt: number): void {
    const now = this.#elapsed();
    const slowness = slownessAfter(this.#slowness.get(id), startedAt, now);
    for (const [other, known] of this.#slowness) if (isForgotten(known, now)) this.#slowness.delete(other);
    this.#slowness.set(id, slowness);
  }
}
