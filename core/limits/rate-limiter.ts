import type { Clock } from '../primitives/time.ts';

/**
 * Counts the calls of callers against a limit of so many a minute.
 *
 * Promises: of the calls of one name, at most the limit and what came back since pass in any stretch of time, however
 * many processes ask the same limiter; after a minute without a call the whole limit may be had at once.
 *
 * Errors: `Unavailable` when the engine behind it does not answer; whether the call was counted is then unknown.
 * An implementer must not make callers of different names wait for each other, nor remember idle names for good.
 */
export interface RateLimiter {
  /** Counts one call and answers 0, or counts none and answers after how many ms there is room for one. */
  take(name: string): Promise<number>;
  close(): Promise<void>;
}

export interface TokenBucketsOptions {
  /** Tokens that come back in a second. */
  readonly perSecond: number;
  /** Tokens of a full bucket: what may be taken at once after a pause. */
  readonly burst: number;
  readonly clock: Clock;
  /** Buckets remembered at once. Default 100,000; past it the one that was begun first is forgotten, that is: full. */
  readonly maxBuckets?: number;
}

const MAX_BUCKETS = 100_000;

/** One token bucket for each name. A bucket that is full again is forgotten when room is needed. */
export class TokenBuckets {
  readonly #options: TokenBucketsOptions;
  /** When each bucket will be full again, epoch ms; one that is not here is full. */
  readonly #fullAt = new Map<string, number>();

  constructor(options: TokenBucketsOptions) {
    this.#options = options;
  }

  /** Takes so many tokens and answers 0, or takes none and answers after how many ms there are that many. */
  take(name: string, tokens = 1): number {
    const { perSecond, burst, clock } = this.#options;
    const now = clock();
    const before = this.#fullAt.get(name);
    const capacityMs = (burst / perSecond) * 1_000;
    const emptied = afterTaking(before, now, tokens / perSecond, capacityMs);
    if (emptied.waitMs > 0) return emptied.waitMs;
    if (before === undefined) this.#makeRoom(now);
    this.#fullAt.set(name, emptied.fullAt);
    return 0;
  }

  get size(): number {
    return this.#fullAt.size;
  }

  #makeRoom(now: number): void {
    const { maxBuckets = MAX_BUCKETS } = this.#options;
    if (this.#fullAt.size < maxBuckets) return;
    for (const [name, fullAt] of this.#fullAt) if (fullAt <= now) this.#fullAt.delete(name);
    const [oldest] = this.#fullAt.keys();
    if (this.#fullAt.size >= maxBuckets && oldest !== undefined) this.#fullAt.delete(oldest);
  }
}

/**
 * When a bucket is full again after tokens worth `seconds` were taken of it, and how long to wait where they are not
 * there. More than a whole bucket is granted where the bucket is full, else it never could be; a clock set back never
 * makes a bucket emptier than empty.
 */
function afterTaking(
  before: number | undefined,
  now: number,
  seconds: number,
  capacityMs: number,
): { readonly fullAt: number; readonly waitMs: number } {
  const missing = Math.min(Math.max(0, (before ?? now) - now), capacityMs);
  const costMs = seconds * 1_000;
  const waitMs = missing === 0 ? 0 : Math.max(0, missing + costMs - capacityMs);
  return { fullAt: now + missing + costMs, waitMs: Math.min(waitMs, missing) };
}
