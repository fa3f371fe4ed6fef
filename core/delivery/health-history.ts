import {
  addLatencies,
  type CircuitState,
  type HealthReport,
  type LatencyCounts,
  latencyPercentile,
  shareOf,
  worstCircuit,
} from './destination-health.ts';

/** The health of one destination in a minute or an hour. */
export interface HealthSample {
  readonly workspace_id: string;
  readonly destination_id: string;
  /** Start of the minute or hour, epoch ms. */
  readonly at: number;
  /** Attempts that ended, by result. */
  readonly delivered: number;
  readonly retry: number;
  readonly dead: number;
  /**
   * Deliveries put off without an attempt, also those found expired: the circuit breaker admitted no request, the wait for
   * one was too long, or the slow queue's window had no room; and attempts that were refused for their rate. Not those of
   * a paused or unreachable destination.
   */
  readonly put_off: number;
  readonly latency: LatencyCounts;
  /** The most that one process had queued at a time, and the longest wait, ms. */
  readonly waiting: number;
  readonly oldest_waiting_ms: number;
  /** The worst state of any process. */
  readonly circuit: CircuitState;
}

/** How fine the kept samples are: the length of one, and how long it is kept, ms. */
export const HEALTH_RESOLUTIONS = {
  minute: { lengthMs: 60_000, keptMs: 6 * 3_600_000 },
  hour: { lengthMs: 3_600_000, keptMs: 31 * 24 * 3_600_000 },
} as const;

export type HealthResolution = keyof typeof HEALTH_RESOLUTIONS;

/** The start of the minute or hour of a time. */
export function startOf(at: number, resolution: HealthResolution): number {
  const { lengthMs } = HEALTH_RESOLUTIONS[resolution];
  return Math.floor(at / lengthMs) * lengthMs;
}

/** Two samples of one destination and time, by different processes or of different minutes of an hour. */
export function addSamples(one: HealthSample, other: HealthSample): HealthSample {
  return {
    workspace_id: one.workspace_id,
    destination_id: one.destination_id,
    at: Math.min(one.at, other.at),
    delivered: one.delivered + other.delivered,
    retry: one.retry + other.retry,
    dead: one.dead + other.dead,
    put_off: one.put_off + other.put_off,
    latency: addLatencies([one.latency, other.latency]),
    waiting: Math.max(one.waiting, other.waiting),
    oldest_waiting_ms: Math.max(one.oldest_waiting_ms, other.oldest_waiting_ms),
    circuit: worstCircuit([one.circuit, other.circuit]),
  };
}

/** True for a sample that says nothing: no attempt, no queue, a closed circuit. */
export function isQuiet({ delivered, retry, dead, put_off, waiting, circuit }: HealthSample): boolean {
  return delivered + retry + dead + put_off + waiting === 0 && circuit === 'closed';
}

/** The attempts of a sample and what part of them delivered; null without attempts. */
export function successRate({ delivered, retry, dead }: HealthSample): number | null {
  return shareOf(delivered, delivered + retry + dead);
}

/** The percentiles of a sample, ms; null without attempts. */
export function sampleLatency({ latency }: HealthSample) {
  return {
    p50_ms: latencyPercentile(latency, 0.5) ?? null,
    p99_ms: latencyPercentile(latency, 0.99) ?? null,
  };
}

export interface HealthHistoryQuery {
  readonly workspaceId: string;
  readonly destinationId: string;
  readonly resolution: HealthResolution;
  readonly from: number;
  readonly until: number;
}

/**
 * Health reports of destinations, shared by the processes that deliver. A process renews its reports every few seconds;
 * only the newest report of a process and destination is kept.
 *
 * - Once `report` has resolved, every process of the installation reads the report.
 * - A report is forgotten `HEALTH_REPORT_TTL_MS` later at the latest, and may be lost earlier with the engine: no delivery
 *   depends on it.
 * - A recorded sample is added to the stored one of the same destination, minute and hour, whichever process recorded it,
 *   as `addSamples` adds. It is kept for the time of `HEALTH_RESOLUTIONS` at least and not much longer: the storage of a
 *   destination is bounded, however long it exists. It may be lost with the engine.
 * - `Unavailable` when the engine does not answer: the records may have been stored all the same. An adapter must not
 *   block its caller for long.
 */
export interface HealthBoard {
  /** Replaces earlier reports of the same process on the same destinations. An empty list does nothing. */
  report(reports: readonly HealthReport[]): Promise<void>;
  /** Reports on a workspace's destinations, all of them or those named; in no order. */
  read(workspaceId: string, destinationIds?: readonly string[]): Promise<readonly HealthReport[]>;
  /** Adds samples of minutes. Not idempotent: a caller does not repeat it. */
  record(samples: readonly HealthSample[]): Promise<void>;
  /** The samples of a destination that begin in a range (epoch ms, the end exclusive), oldest first, without quiet ones. */
  history(query: HealthHistoryQuery): Promise<readonly HealthSample[]>;
  /** Idempotent. */
  close(): Promise<void>;
}
