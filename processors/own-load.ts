import { type EventLoopUtilization, performance } from 'node:perf_hooks';
import type { Clock } from '@tributary/core';

/** The share of the time that a thread is at work from which on waits are its own fault. */
const OVERLOADED_FROM = 0.9;
/** Once it is overloaded, it is until it was at work for less. */
const OVERLOADED_UNTIL = 0.7;
/** It is looked at most this often, ms. */
const EVERY_MS = 200;

/**
 * Whether this thread has more to do than it can: then whoever waits, waits for it, and no destination or
 * transformation is to be called slow for that. To hand work on would only add to it.
 */
export class OwnLoad {
  readonly #elapsed: Clock;
  readonly #measure: typeof performance.eventLoopUtilization;
  #last: EventLoopUtilization;
  #lookedAt: number;
  #overloaded = false;

  /** `elapsed`: ms that never go back. */
  constructor(elapsed: Clock, measure = performance.eventLoopUtilization) {
    this.#elapsed = elapsed;
    this.#measure = measure;
    this.#last = measure();
    this.#lookedAt = elapsed();
  }

  /** By what it was at work since it was last asked, and no shorter time than a fifth of a second. */
  get overloaded(): boolean {
    const now = this.#elapsed();
    if (now - this.#lookedAt >= EVERY_MS) {
      const current = this.#measure();
      const bound = this.#overloaded ? OVERLOADED_UNTIL : OVERLOADED_FROM;
      this.#overloaded = this.#measure(current, this.#last).utilization >= bound;
      this.#last = current;
      this.#lookedAt = now;
    }
    return this.#overloaded;
  }
}
