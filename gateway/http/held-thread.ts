import { setImmediate as nextTurn } from 'node:timers/promises';

/** How long one piece of work holds the thread before it gives it back, ms: others are answered in between. */
const HELD_MS = 5;

/** The thread while one piece of work holds it: from when this is made, and anew after each rest. */
export class HeldThread {
  #since = performance.now();

  get isDueToRest(): boolean {
    return performance.now() - this.#since > HELD_MS;
  }

  async rest(): Promise<void> {
    await nextTurn();
    this.#since = performance.now();
  }
}
