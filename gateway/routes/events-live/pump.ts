import type { Clock } from '@tributary/core';

/**
 * Of each window this much at most goes to streams, ms: so however many there are and however much there is to send,
 * they take a small share of the thread that also takes events in. (What the system does for a turn afterwards costs about
 * twice the turn itself.)
 */
export const WORK_MS = 2;
export const WINDOW_MS = 100;

/**
 * Serves whoever has something to be sent, in turns and at once, until the work of the window is done; the next in turn
 * is then the first of the next window.
 */
export class Pump<T> {
  readonly #serve: (one: T) => boolean;
  readonly #elapsed: Clock;
  readonly #waiting = new Set<T>();
  #immediate: NodeJS.Immediate | undefined;
  #timer: NodeJS.Timeout | undefined;
  #windowEnd = Number.NEGATIVE_INFINITY;
  #worked = 0;

  /** `serve` sends one what comes next, and says whether there may be more. `elapsed`: ms that never go back. */
  constructor(serve: (one: T) => boolean, elapsed: Clock) {
    this.#serve = serve;
    this.#elapsed = elapsed;
  }

  /** There may be something to send to this one. */
  wake(one: T): void {
    this.#waiting.add(one);
    this.#schedule();
  }

  forget(one: T): void {
    this.#waiting.delete(one);
  }

  stop(): void {
    this.#waiting.clear();
    clearImmediate(this.#immediate);
    clearTimeout(this.#timer);
  }

  #schedule(): void {
    if (this.#waiting.size === 0 || this.#immediate !== undefined || this.#timer !== undefined) return;
    const rest = this.#worked < WORK_MS ? 0 : this.#windowEnd - this.#elapsed();
    if (rest > 0) this.#timer = setTimeout(() => this.#work(), rest);
    else this.#immediate = setImmediate(() => this.#work());
  }

  #work(): void {
    this.#immediate = undefined;
    this.#timer = undefined;
    const begin = this.#elapsed();
    if (begin >= this.#windowEnd) {
      this.#windowEnd = begin + WINDOW_MS;
      this.#worked = 0;
    }
    const before = this.#worked;
    // Who has more goes to the end of the line.
    for (const one of this.#waiting) {
      this.#waiting.delete(one);
      if (this.#serve(one)) this.#waiting.add(one);
      this.#worked = before + this.#elapsed() - begin;
      if (this.#worked >= WORK_MS) break;
    }
    this.#schedule();
  }
}
