import {
  addLatencies,
  type DeliveryResult,
  type HealthError,
  type HealthReport,
  type LatencyCounts,
  latencyBucket,
  MAX_LAST_ERRORS,
} from '@tributary/core';
import { isThrottled } from '../outcome.ts';

/** Window of the counts in a report, and of its recent attempts, ms; they advance in steps of five seconds. */
const HEALTH_WINDOW_MS = 60_000;
const RECENT_MS = 5 * 60_000;
const BUCKET_MS = 5_000;

/** The part of a report that is counted; the rest is the state of the moment. */
export type Tallied = Pick<
  HealthReport,
  'window_ms' | Counted | 'throttled' | 'recent' | 'latency' | 'last_delivered_at' | 'last_errors'
>;

type Counted = 'delivered' | 'retry' | 'dead' | 'put_off';

/** Counts since they were last taken. A throttled attempt counts as a delivery that was put off. */
export type HealthIncrement = Pick<HealthReport, Counted | 'latency'>;

/** Counts the attempts at one destination, over all its queues, until they are taken. Bounded. */
export class HealthCounts {
  #counts = { delivered: 0, retry: 0, dead: 0, put_off: 0 };
  #latencies = new Map<number, number>();

  attempted(outcome: Exclude<Counted, 'put_off'>, latency: number, times: number): void {
    this.#counts[outcome] += times;
    this.#latencies.set(latency, (this.#latencies.get(latency) ?? 0) + times);
  }

  noteNotAttempted(times = 1): void {
    this.#counts.put_off += times;
  }

  take(): HealthIncrement {
    const taken = { ...this.#counts, latency: addLatencies([[...this.#latencies]]) };
    this.#counts = { delivered: 0, retry: 0, dead: 0, put_off: 0 };
    this.#latencies = new Map();
    return taken;
  }
}

interface Bucket {
  readonly number: number;
  readonly counts: Record<Counted | 'throttled', number>;
  readonly latencies: Map<number, number>;
}

/**
 * Counts the attempts at one destination in the last minutes. Bounded: sixty buckets and a few errors. `elapsed` is ms of
 * a monotonic clock, `now` epoch ms.
 */
export class HealthTally {
  readonly #beganAt: number;
  #buckets: Bucket[] = [];
  #lastDeliveredAt: number | null = null;
  #errors: readonly HealthError[] = [];

  readonly #sinceTaken: HealthCounts;

  /** `sinceTaken` counts the same attempts. */
  constructor(elapsed: number, sinceTaken = new HealthCounts()) {
    this.#beganAt = elapsed;
    this.#sinceTaken = sinceTaken;
  }

  /** `times` attempts had this result; they count as one error. */
  attempted(
    result: Exclude<DeliveryResult, { outcome: 'unwanted' }>,
    durationMs: number,
    now: number,
    elapsed: number,
    times = 1,
  ): void {
    const bucket = this.#bucketAt(elapsed);
    if (isThrottled(result)) {
      bucket.counts.throttled += times;
      this.#sinceTaken.noteNotAttempted(times);
    } else {
      bucket.counts[result.outcome] += times;
      const latency = latencyBucket(durationMs);
      bucket.latencies.set(latency, (bucket.latencies.get(latency) ?? 0) + times);
      this.#sinceTaken.attempted(result.outcome, latency, times);
    }
    if (result.outcome === 'delivered') this.#lastDeliveredAt = now;
    else {
      const { outcome, reason, status } = result;
      const error = { at: now, outcome, reason, ...(status === undefined ? {} : { status }) };
      this.#errors = [error, ...this.#errors].slice(0, MAX_LAST_ERRORS);
    }
  }

  noteNotAttempted(elapsed: number): void {
    this.#bucketAt(elapsed).counts.put_off += 1;
    this.#sinceTaken.noteNotAttempted();
  }

  tallied(elapsed: number): Tallied {
    this.#forget(elapsed);
    const oldest = bucketBefore(elapsed, HEALTH_WINDOW_MS);
    const minute = this.#buckets.filter(({ number }) => number > oldest);
    const total = (counted: keyof Bucket['counts'], buckets: readonly Bucket[] = minute) =>
      buckets.reduce((sum, { counts }) => sum + counts[counted], 0);
    const latencies = minute.map((bucket): LatencyCounts => [...bucket.latencies]);
    return {
      window_ms: Math.max(1, Math.min(HEALTH_WINDOW_MS, elapsed - this.#beganAt)),
      delivered: total('delivered'),
      retry: total('retry'),
      dead: total('dead'),
      throttled: total('throttled'),
      put_off: total('put_off'),
      recent: {
        delivered: total('delivered', this.#buckets),
        failed: total('retry', this.#buckets) + total('dead', this.#buckets),
        throttled: total('throttled', this.#buckets),
      },
      latency: addLatencies(latencies),
      last_delivered_at: this.#lastDeliveredAt,
      last_errors: this.#errors,
    };
  }

  #bucketAt(elapsed: number): Bucket {
    const number = Math.floor(elapsed / BUCKET_MS);
    const last = this.#buckets.at(-1);
    if (last?.number === number) return last;
    this.#forget(elapsed);
    const counts = { delivered: 0, retry: 0, dead: 0, throttled: 0, put_off: 0 };
    const bucket: Bucket = { number, counts, latencies: new Map() };
    this.#buckets.push(bucket);
    return bucket;
  }

  #forget(elapsed: number): void {
    const oldest = bucketBefore(elapsed, RECENT_MS);
    this.#buckets = this.#buckets.filter(({ number }) => number > oldest);
  }
}

/** The number of the newest bucket before a window. */
function bucketBefore(elapsed: number, windowMs: number): number {
  return Math.floor(elapsed / BUCKET_MS) - windowMs / BUCKET_MS;
}
