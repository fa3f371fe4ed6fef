import type { Clock } from '@tributary/core';

/**
 * Streams get at most this part of each window, ms: a small share of the event loop, which ingestion needs as well,
 * however many streams there are. (The system calls that follow a turn cost about twice the turn itself.)
 */
export const WORK_MS = 2;
export const WINDOW_MS = 100;

/**
 * Serves streams with pending data in turn, immediately, until the share of the window is used up; the next one in turn
 * is the first of the next window.
 */
export class Pump<T> {
  readonly #serve: (one: T) => boolean;
  readonly #elapsed: Clock;
  readonly #waiting = new Set<T>();
  #immediate: NodeJS.Immediate | undefined;
  #timer: NodeJS.Timeout | undefined;
  #windowEnd = Number.NEGATIVE_INFINITY;
  #worked = 0;

  /** `serve` sends to one stream and returns whether it may have more. `elapsed`: a monotonic clock, ms. */
  constructor(serve: (one: T) => boolean, elapsed: Clock) {
    this.#serve = serve;
    this.#elapsed = elapsed;
  }

  /** To be called when a stream may have pending data. */
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
    // A stream with more data goes to the end of the queue.
    for (const one of this.#waiting) {
      this.#waiting.delete(one);
      if (this.#serve(one)) this.#waiting.add(one);
      this.#worked = before + this.#elapsed() - begin;
      if (this.#worked >= WORK_MS) break;
    }
    this.#schedule();
  }
}
