import type { Claim } from './claim-script.ts';

export interface RecentWinsOptions {
  /** How long a win is recent, ms. */
  readonly keptMs: number;
  /** Wins at most; the oldest go first. */
  readonly limit: number;
}

/** The last wins of this process, which Redis confirmed but may yet lose. */
export class RecentWins {
  readonly #options: RecentWinsOptions;
  #batches: { readonly at: number; readonly wins: readonly Claim[] }[] = [];
  #count = 0;

  constructor(options: RecentWinsOptions) {
    this.#options = options;
  }

  /** `now` is of a clock that never goes back. What is old is let go here and nowhere else: an outage ages nothing. */
  add(wins: readonly Claim[], now: number): void {
    if (wins.length === 0) return;
    this.#batches.push({ at: now, wins });
    this.#count += wins.length;
    const { keptMs, limit } = this.#options;
    const isOver = (at: number) => at + keptMs < now || this.#count > limit;
    let dropped = 0;
    for (const { at, wins: old } of this.#batches.slice(0, -1)) {
      if (!isOver(at)) break;
      this.#count -= old.length;
      dropped++;
    }
    if (dropped > 0) this.#batches = this.#batches.slice(dropped);
  }

  /** In the order in which they were won. */
  all(): readonly Claim[] {
    return this.#batches.flatMap(({ wins }) => wins);
  }
}
