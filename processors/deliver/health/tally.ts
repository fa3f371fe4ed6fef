import {
  addLatencies,
  type DeliveryResult,
  type HealthError,
  type HealthReport,
  type LatencyCounts,
  latencyBucket,
  MAX_LAST_ERRORS,
} from '@tributary/core';

/** Window of the counts in a report, ms; it advances in steps of a twelfth. */
const HEALTH_WINDOW_MS = 60_000;
const SLOT_MS = HEALTH_WINDOW_MS / 12;

/** The part of a report that is counted; the rest is the state of the moment. */
export type Tallied = Pick<
  HealthReport,
  'window_ms' | 'delivered' | 'retry' | 'dead' | 'put_off' | 'latency' | 'last_delivered_at' | 'last_errors'
>;

type Counted = 'delivered' | 'retry' | 'dead' | 'put_off';

/** Counts since they were last taken. */
export type HealthIncrement = Pick<HealthReport, Counted | 'latency'>;

/** Counts the attempts at one destination, over all its queues, until they are taken. Bounded. */
export class HealthCounts {
  #counts = { delivered: 0, retry: 0, dead: 0, put_off: 0 };
  #latencies = new Map<number, number>();

  attempted(outcome: DeliveryResult['outcome'], latency: number, times: number): void {
    this.#counts[outcome] += times;
    this.#latencies.set(latency, (this.#latencies.get(latency) ?? 0) + times);
  }

  noteNotAttempted(): void {
    this.#counts.put_off += 1;
  }

  take(): HealthIncrement {
    const taken = { ...this.#counts, latency: addLatencies([[...this.#latencies]]) };
    this.#counts = { delivered: 0, retry: 0, dead: 0, put_off: 0 };
    this.#latencies = new Map();
    return taken;
  }
}

interface Slot {
  readonly number: number;
  readonly counts: Record<Counted, number>;
  readonly latencies: Map<number, number>;
}

/**
 * Counts the attempts at one destination in the last minute. Bounded: twelve slots and a few errors. `elapsed` is ms of
 * a monotonic clock, `now` epoch ms.
 */
export class HealthTally {
  readonly #beganAt: number;
  #slots: Slot[] = [];
  #lastDeliveredAt: number | null = null;
  #errors: readonly HealthError[] = [];

  readonly #sinceTaken: HealthCounts;

  /** `sinceTaken` counts the same attempts. */
  constructor(elapsed: number, sinceTaken = new HealthCounts()) {
    this.#beganAt = elapsed;
    this.#sinceTaken = sinceTaken;
  }

  /** `times` attempts had this result; they count as one error. */
  attempted(result: DeliveryResult, durationMs: number, now: number, elapsed: number, times = 1): void {
    const slot = this.#slotAt(elapsed);
    slot.counts[result.outcome] += times;
    const bucket = latencyBucket(durationMs);
    slot.latencies.set(bucket, (slot.latencies.get(bucket) ?? 0) + times);
    this.#sinceTaken.attempted(result.outcome, bucket, times);
    if (result.outcome === 'delivered') this.#lastDeliveredAt = now;
    else {
      const { outcome, reason, status } = result;
      const error = { at: now, outcome, reason, ...(status === undefined ? {} : { status }) };
      this.#errors = [error, ...this.#errors].slice(0, MAX_LAST_ERRORS);
    }
  }

  noteNotAttempted(elapsed: number): void {
    this.#slotAt(elapsed).counts.put_off += 1;
    this.#sinceTaken.noteNotAttempted();
  }

  tallied(elapsed: number): Tallied {
    this.#forget(elapsed);
    const total = (counted: Counted) => this.#slots.reduce((sum, { counts }) => sum + counts[counted], 0);
    const latencies = this.#slots.map((slot): LatencyCounts => [...slot.latencies]);
    return {
      window_ms: Math.max(1, Math.min(HEALTH_WINDOW_MS, elapsed - this.#beganAt)),
      delivered: total('delivered'),
      retry: total('retry'),
      dead: total('dead'),
      put_off: total('put_off'),
      latency: addLatencies(latencies),
      last_delivered_at: this.#lastDeliveredAt,
      last_errors: this.#errors,
    };
  }

  #slotAt(elapsed: number): Slot {
    const number = Math.floor(elapsed / SLOT_MS);
    const last = this.#slots.at(-1);
    if (last?.number === number) return last;
    this.#forget(elapsed);
    const counts = { delivered: 0, retry: 0, dead: 0, put_off: 0 };
    const slot: Slot = { number, counts, latencies: new Map() };
    this.#slots.push(slot);
    return slot;
  }

  #forget(elapsed: number): void {
    const oldest = Math.floor(elapsed / SLOT_MS) - HEALTH_WINDOW_MS / SLOT_MS;
    this.#slots = this.#slots.filter(({ number }) => number > oldest);
  }
}
