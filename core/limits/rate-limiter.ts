import type { Clock } from '../primitives/time.ts';

/**
 * Limits the calls of each caller per minute.
 *
 * Promises: in any period, at most the limit plus the tokens refilled since pass for one name, however many processes
 * share the limiter. After a minute without calls the whole limit is available at once.
 *
 * Errors: `Unavailable` when the engine does not answer; the call may have been counted or not.
 * An implementer must not make callers of different names wait for each other, nor keep idle names for ever.
 */
export interface RateLimiter {
  /** Counts one call and returns 0, or counts none and returns the time in ms until one is allowed. */
  take(name: string): Promise<number>;
  close(): Promise<void>;
}

interface TokenBucketsOptions {
  readonly perSecond: number;
  /** Tokens of a full bucket. */
  readonly burst: number;
  readonly clock: Clock;
  /** Bound on stored buckets. Default 100,000; above it the oldest bucket is dropped, and is then full again. */
  readonly maxBuckets?: number;
  /** For how long a bucket is in debt at most, ms, however much was charged. Default 60,000. */
  readonly maxDebtMs?: number;
}

const MAX_BUCKETS = 100_000;
const MAX_DEBT_MS = 60_000;

/** One token bucket for each name. Full buckets are dropped when room is needed. */
export class TokenBuckets {
  readonly #options: TokenBucketsOptions;
  /** When each bucket will be full again, epoch ms; without an entry it is full. */
  readonly #fullAt = new Map<string, number>();

  constructor(options: TokenBucketsOptions) {
    this.#options = options;
  }

  /** Takes the tokens and returns 0, or takes none and returns the time in ms until they are available. */
  take(name: string, tokens = 1): number {
    const { burst, clock } = this.#options;
    const now = clock();
    const before = this.#fullAt.get(name);
    const emptied = afterTaking(before, now, this.#msOf(tokens), this.#msOf(burst));
    if (emptied.waitMs > 0) return emptied.waitMs;
    if (before === undefined) this.#makeRoom(now);
    this.#fullAt.set(name, emptied.fullAt);
    return 0;
  }

  /** Takes tokens that may not be there, for calls whose cost is known only at their end: the bucket is then in debt. */
  charge(name: string, tokens: number): void {
    if (tokens <= 0) return;
    const { burst, clock, maxDebtMs = MAX_DEBT_MS } = this.#options;
    const now = clock();
    const fullAt = Math.max(now, this.#fullAt.get(name) ?? now) + this.#msOf(tokens);
    // Last in the order of the map, so that the bucket that was charged longest ago is dropped first.
    this.#fullAt.delete(name);
    this.#makeRoom(now);
    this.#fullAt.set(name, Math.min(fullAt, now + this.#msOf(burst) + maxDebtMs));
  }

  /** Ms until the tokens are available; without `tokens`, until the bucket is out of debt. Takes none. */
  waitMs(name: string, tokens = 0): number {
    const fullAt = this.#fullAt.get(name);
    if (fullAt === undefined) return 0;
    return Math.max(0, fullAt - this.#options.clock() - this.#msOf(this.#options.burst - tokens));
  }

  isFull(name: string): boolean {
    const fullAt = this.#fullAt.get(name);
    return fullAt === undefined || fullAt <= this.#options.clock();
  }

  get size(): number {
    return this.#fullAt.size;
  }

  #msOf(tokens: number): number {
    return (tokens / this.#options.perSecond) * 1_000;
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
 * When a bucket is full again after taking tokens worth `costMs`, and how long to wait where they are not available.
 * A full bucket grants more than its size, as such a call would never be allowed otherwise; a clock that was set back
 * never makes a bucket emptier than empty.
 */
function afterTaking(
  before: number | undefined,
  now: number,
  costMs: number,
  capacityMs: number,
): { readonly fullAt: number; readonly waitMs: number } {
  const missing = Math.min(Math.max(0, (before ?? now) - now), capacityMs);
  const waitMs = missing === 0 ? 0 : Math.max(0, missing + costMs - capacityMs);
  return { fullAt: now + missing + costMs, waitMs: Math.min(waitMs, missing) };
}
