import { type EventLoopUtilization, performance } from 'node:perf_hooks';
import type { Clock } from '@tributary/core';

/** Share of busy time from which a thread is saturated. */
const SATURATED_FROM = 0.9;
/** Share of busy time below which a saturated thread is no longer saturated. */
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
