import type { Clock } from './clock.ts';

/** How long one piece of work holds the thread before it gives it back, ms: others get their turn in between. */
const HELD_MS = 5;

/** The thread while one piece of work holds it: from when this is made, and anew after each rest. */
export class HeldThread {
  readonly #elapsed: Clock;
  readonly #heldMs: number;
  #since: number;

  /** `elapsed`: ms that never go back. */
  constructor(elapsed: Clock, heldMs = HELD_MS) {
    this.#elapsed = elapsed;
    this.#heldMs = heldMs;
    this.#since = elapsed();
  }

  get isDueToRest(): boolean {
    return this.#elapsed() - this.#since > this.#heldMs;
  }

  async rest(): Promise<void> {
    await new Promise<void>((resolve) => {
      setImmediate(resolve);
    });
    this.#since = this.#elapsed();
  }
}
