import type { Clock } from '@tributary/core';

/** How often it is looked who has waited too long, ms: patience may last this much longer. */
const CHECK_MS = 25;

interface Wait {
  readonly since: number;
  readonly ms: number;
  readonly giveUp: () => void;
}

/** Ends waits that last too long, with one timer for all of them. */
export class Patience {
  readonly #elapsed: Clock;
  readonly #factor: () => number;
  readonly #waits = new Set<Wait>();
  #timer: NodeJS.Timeout | undefined;

  /**
   * `elapsed`: ms that never go back, or waits would last as long as the clock was set back. `factor`: asked at each
   * look, how many times as long all waits may last; default 1.
   */
  constructor(elapsed: Clock, factor: () => number = () => 1) {
    this.#elapsed = elapsed;
    this.#factor = factor;
  }

  /** Calls `giveUp` once `ms` have passed, unless what it returns was called before. */
  wait(ms: number, giveUp: () => void): () => void {
    const wait: Wait = { since: this.#elapsed(), ms, giveUp };
    this.#waits.add(wait);
    this.#watch();
    return () => this.#waits.delete(wait);
  }

  #watch(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      const now = this.#elapsed();
      const factor = this.#factor();
      for (const wait of this.#waits) {
        if (now - wait.since < wait.ms * factor) continue;
        this.#waits.delete(wait);
        wait.giveUp();
      }
      if (this.#waits.size > 0) this.#watch();
    }, CHECK_MS).unref();
  }
}
