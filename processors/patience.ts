import type { Clock } from '@tributary/core';

/** How often it is looked who has waited too long, ms: patience may last this much longer. */
const CHECK_MS = 25;

interface Wait {
  readonly until: number;
  readonly giveUp: () => void;
}

/** Ends waits that last too long, with one timer for all of them. */
export class Patience {
  readonly #elapsed: Clock;
  readonly #waits = new Set<Wait>();
  #timer: NodeJS.Timeout | undefined;

  /** `elapsed`: ms that never go back, or waits would last as long as the clock was set back. */
  constructor(elapsed: Clock) {
    this.#elapsed = elapsed;
  }

  /** Calls `giveUp` once `ms` have passed, unless what it returns was called before. */
  wait(ms: number, giveUp: () => void): () => void {
    const wait: Wait = { until: this.#elapsed() + ms, giveUp };
    this.#waits.add(wait);
    this.#watch();
    return () => this.#waits.delete(wait);
  }

  #watch(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      const now = this.#elapsed();
      for (const wait of this.#waits) {
        if (wait.until > now) continue;
        this.#waits.delete(wait);
        wait.giveUp();
      }
      if (this.#waits.size > 0) this.#watch();
    }, CHECK_MS).unref();
  }
}
