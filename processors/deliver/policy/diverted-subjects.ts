import type { Clock } from '@tributary/core';
import { LRUCache } from 'lru-cache';

/** Keys that are remembered; the oldest beyond are forgotten. */
const KEPT = 50_000;

/**
 * How long later deliveries follow one that the slow stage of this process has not completed, ms: that of another process may
 * have it. Longer than a delivery waits in a slow stage before it is deferred.
 */
export const FOLLOWED_MS = 30_000;

interface Diverted {
  count: number;
  until: number;
}

/**
 * The destinations and subjects, as keys of deliveries, that have deliveries in the slow queue. Later ones of the same key follow
 * them there, so that none overtakes another.
 */
export class DivertedSubjects {
  readonly #elapsed: Clock;
  readonly #diverted = new LRUCache<string, Diverted>({ max: KEPT });

  /** `elapsed`: ms of a monotonic clock. */
  constructor(elapsed: Clock) {
    this.#elapsed = elapsed;
  }

  has(key: string): boolean {
    if (this.#diverted.size === 0) return false;
    const known = this.#diverted.peek(key);
    if (known === undefined) return false;
    if (this.#elapsed() < known.until) return true;
    this.#diverted.delete(key);
    return false;
  }

  /** A delivery was diverted. It does not prolong the time of an earlier one: in another process that may be done long since. */
  add(key: string): void {
    const known = this.has(key) ? this.#diverted.get(key) : undefined;
    if (known === undefined) this.#diverted.set(key, { count: 1, until: this.#elapsed() + FOLLOWED_MS });
    else known.count += 1;
  }

  /** The slow stage of this process completed a delivery, or deferred it. */
  settled(key: string): void {
    const known = this.#diverted.peek(key);
    if (known === undefined) return;
    known.count -= 1;
    known.until = this.#elapsed() + FOLLOWED_MS;
    if (known.count === 0) this.#diverted.delete(key);
  }
}
