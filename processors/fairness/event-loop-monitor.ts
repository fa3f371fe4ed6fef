import { type EventLoopUtilization, performance } from 'node:perf_hooks';
import type { Clock } from '@tributary/core';

/** Share of the time that a thread is busy from which on it is saturated... */
const SATURATED_FROM = 0.9;
/** ...until it is busy for less than this. */
const SATURATED_UNTIL = 0.7;
/** Shortest interval of measurements, ms. */
const EVERY_MS = 200;

/**
 * Whether this thread has more to do than it can. Waits are then its own doing, and no destination or transformation is
 * called slow for them: handing work on would only add to it.
 */
export class EventLoopMonitor {
  readonly #elapsed: Clock;
  readonly #measure: typeof performance.eventLoopUtilization;
  #last: EventLoopUtilization;
  #measuredAt: number;
  #saturated = false;

  /** `elapsed`: ms of a monotonic clock. */
  constructor(elapsed: Clock, measure = performance.eventLoopUtilization) {
    this.#elapsed = elapsed;
    this.#measure = measure;
    this.#last = measure();
    this.#measuredAt = elapsed();
  }

  /** By the utilization since the measurement before, which is at least a fifth of a second ago. */
  get saturated(): boolean {
    const now = this.#elapsed();
    if (now - this.#measuredAt >= EVERY_MS) {
      const current = this.#measure();
      const bound = this.#saturated ? SATURATED_UNTIL : SATURATED_FROM;
      this.#saturated = this.#measure(current, this.#last).utilization >= bound;
      this.#last = current;
      this.#measuredAt = now;
    }
    return this.#saturated;
  }
}
