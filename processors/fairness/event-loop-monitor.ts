import { type EventLoopUtilization, performance } from 'node:perf_hooks';
import type { Clock } from '@tributary/core';

/** A thread is saturated from this share of busy time on... */
const SATURATED_FROM = 0.9;
/** ...until it is busy for less than this. */
const SATURATED_UNTIL = 0.7;
/** Minimum interval of measurements, ms. */
const EVERY_MS = 200;

/**
 * Whether this thread has more work than time. Then waits are its own fault, and no destination counts as slow because of
 * them: moving work to the slow queue would only add to it.
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

  /** By the utilization since the last measurement, at least `EVERY_MS` ago. */
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
