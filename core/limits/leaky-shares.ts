import type { Clock } from '../primitives/time.ts';

interface LeakyShareOptions {
  /** Amount of each name that becomes free again in a second. */
  readonly perSecond: number;
  /** Amount that a name may use at once. */
  readonly burst: number;
  /** Ms of a monotonic clock. */
  readonly elapsed: Clock;
}

/** Names that are remembered: those that used something in the last seconds. */
const MAX_NAMES = 10_000;
/** A name waits for so long at most, ms, however much it used. */
const MAX_WAIT_MS = 60_000;

/** The recent use of each name, charged after the fact because a call's cost is known only at its end. */
export class LeakyShares {
  readonly #options: LeakyShareOptions;
  /** When the use of each name is forgotten, ms. */
  readonly #freeAt = new Map<string, number>();

  constructor(options: LeakyShareOptions) {
    this.#options = options;
  }

  charge(name: string, amount: number): void {
    if (amount <= 0) return;
    const now = this.#options.elapsed();
    const free = Math.max(now, this.#freeAt.get(name) ?? now) + this.#msOf(amount);
    // Last in the order of the map, so that the name that was charged longest ago is forgotten first.
    this.#freeAt.delete(name);
    if (this.#freeAt.size >= MAX_NAMES) this.#makeRoom(now);
    this.#freeAt.set(name, Math.min(free, now + this.#msOf(this.#options.burst) + MAX_WAIT_MS));
  }

  /** Whether the name has been charged and its use is not forgotten yet. */
  isInUse(name: string): boolean {
    return this.#freeAt.size > 0 && (this.#freeAt.get(name) ?? 0) > this.#options.elapsed();
  }

  /** Ms until the name is within its share; 0 where it is. */
  waitMs(name: string): number {
    const freeAt = this.#freeAt.size === 0 ? undefined : this.#freeAt.get(name);
    if (freeAt === undefined) return 0;
    return Math.max(0, freeAt - this.#options.elapsed() - this.#msOf(this.#options.burst));
  }

  #msOf(amount: number): number {
    return (amount / this.#options.perSecond) * 1_000;
  }

  #makeRoom(now: number): void {
    for (const [name, freeAt] of this.#freeAt) if (freeAt <= now) this.#freeAt.delete(name);
    const [oldest] = this.#freeAt.keys();
    if (this.#freeAt.size >= MAX_NAMES && oldest !== undefined) this.#freeAt.delete(oldest);
  }
}
