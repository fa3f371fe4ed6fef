import { type Turns, turnsAfter } from '../alerts/alert.ts';
import { iso } from '../primitives/time.ts';

/** State of a destination's circuit breaker. */
export type CircuitState = 'closed' | 'open' | 'half-open';

/** A failed attempt. `reason` is for users: short, no secrets. */
export interface HealthError {
  /** Epoch ms. */
  readonly at: number;
  readonly outcome: 'retry' | 'dead';
  readonly reason: string;
  readonly status?: number;
}

/** Attempts that ended, by result: `failed` without those that were refused for their rate. */
export interface RecentAttempts {
  readonly delivered: number;
  readonly failed: number;
  readonly throttled: number;
}

/** The metrics of one process for one destination. Times are epoch ms of that process. */
export interface HealthReport {
  readonly workspace_id: string;
  readonly destination_id: string;
  /** The reporting process; a restarted process has another id. */
  readonly process: string;
  readonly at: number;
  /** Length of the counted period before `at`, ms: a minute, less for a process that started later. Never 0. */
  readonly window_ms: number;
  /** Attempts that ended, by result. */
  readonly delivered: number;
  readonly retry: number;
  readonly dead: number;
  /** Attempts that the destination refused for their rate; absent in reports of 0.2.0. */
  readonly throttled?: number;
  /** Requests a second that the refusals led to; absent where there were none. */
  readonly pace?: number;
  /**
   * Deliveries put off without an attempt, also those found expired: the circuit breaker admitted no request, the wait for
   * one was too long, or the slow queue's window had no room. Not those of a paused or unreachable destination.
   */
  readonly put_off: number;
  /** Attempts of the last five minutes; absent in reports of 0.2.0. */
  readonly recent?: RecentAttempts;
  /** Durations of the attempts. */
  readonly latency: LatencyCounts;
  /** Queued deliveries, deliveries in requests, and since when the oldest queued one waits. */
  readonly waiting: number;
  readonly under_way: number;
  readonly oldest_waiting_at: number | null;
  readonly circuit: CircuitState;
  readonly circuit_since: number;
  readonly last_delivered_at: number | null;
  /** Newest first, at most `MAX_LAST_ERRORS`. */
  readonly last_errors: readonly HealthError[];
  /** Of a warehouse: what was accepted before is loaded. Absent until the process has loaded. */
  readonly loaded_until?: number;
}

/** The health of a destination over all processes. Rates are deliveries a second over the last minute. */
export interface DestinationHealth {
  /** Time of the newest report, epoch ms. */
  readonly at: number;
  readonly processes: number;
  readonly delivered_per_second: number;
  /** Attempts that did not deliver, without those that were refused for their rate. */
  readonly failed_per_second: number;
  readonly throttled_per_second: number;
  readonly put_off_per_second: number;
  /** Requests a second of all processes that were refused some for their rate; null where none was. */
  readonly pace_per_second: number | null;
  /** Null when no attempt ended. */
  readonly p50_ms: number | null;
  readonly p99_ms: number | null;
  readonly waiting: number;
  readonly under_way: number;
  /** Wait of the oldest queued delivery, ms. Deliveries in retry topics are not counted. */
  readonly oldest_waiting_ms: number | null;
  /** The worst state of any process (open, half-open, closed), and since when. */
  readonly circuit: CircuitState;
  readonly circuit_since: number;
  readonly last_delivered_at: number | null;
  readonly last_errors: readonly HealthError[];
  /** Attempts of the last minute; of the last five where it had none. */
  readonly recent: RecentAttempts;
  /** Of a warehouse: what was accepted before is loaded. Null where no process has loaded. */
  readonly loaded_until: number | null;
}

/** Errors that are kept of a destination. */
export const MAX_LAST_ERRORS = 5;

const WORST_FIRST: readonly CircuitState[] = ['open', 'half-open', 'closed'];

/** The worst of some states. */
export function worstCircuit(states: readonly CircuitState[]): CircuitState {
  return WORST_FIRST.find((state) => states.includes(state)) ?? 'closed';
}

/** Merges the reports of all processes on one destination, in any order; undefined without reports. */
export function mergeHealth(reports: readonly HealthReport[]): DestinationHealth | undefined {
  if (reports.length === 0) return undefined;
  const perSecond = (countOf: (report: HealthReport) => number) =>
    round(sum(reports, (report) => (countOf(report) * 1_000) / report.window_ms));
  const latency = addLatencies(reports.map((report) => report.latency));
  const circuit = worstCircuit(reports.map((report) => report.circuit));
  const since = reports.filter((report) => report.circuit === circuit).map((report) => report.circuit_since);
  const waits = reports.flatMap(({ at, oldest_waiting_at: oldest }) =>
    oldest === null ? [] : [at - oldest],
  );
  const paces = reports.filter(({ pace }) => pace !== undefined);
  const latest = (times: readonly (number | null)[]) => {
    const known = times.filter((time) => time !== null);
    return known.length === 0 ? null : Math.max(...known);
  };
  return {
    at: Math.max(...reports.map(({ at }) => at)),
    processes: reports.length,
    delivered_per_second: perSecond((report) => report.delivered),
    failed_per_second: perSecond((report) => report.retry + report.dead),
    throttled_per_second: perSecond((report) => report.throttled ?? 0),
    put_off_per_second: perSecond((report) => report.put_off),
    pace_per_second: paces.length === 0 ? null : round(sum(paces, ({ pace = 0 }) => pace)),
    p50_ms: latencyPercentile(latency, 0.5) ?? null,
    p99_ms: latencyPercentile(latency, 0.99) ?? null,
    waiting: sum(reports, ({ waiting }) => waiting),
    under_way: sum(reports, ({ under_way }) => under_way),
    oldest_waiting_ms: waits.length === 0 ? null : Math.max(0, ...waits),
    circuit,
    circuit_since: Math.min(...since),
    last_delivered_at: latest(reports.map(({ last_delivered_at: last }) => last)),
    last_errors: reports
      .flatMap((report) => report.last_errors)
      .sort((a, b) => b.at - a.at)
      .slice(0, MAX_LAST_ERRORS),
    recent: recentAttempts(reports),
    loaded_until: latest(reports.map(({ loaded_until: until = null }) => until)),
  };
}

function recentAttempts(reports: readonly HealthReport[]): RecentAttempts {
  const added = (of: (report: HealthReport) => RecentAttempts): RecentAttempts => ({
    delivered: sum(reports, (report) => of(report).delivered),
    failed: sum(reports, (report) => of(report).failed),
    throttled: sum(reports, (report) => of(report).throttled),
  });
  const ofMinute = ({ delivered, retry, dead, throttled = 0 }: HealthReport): RecentAttempts => ({
    delivered,
    failed: retry + dead,
    throttled,
  });
  const minute = added(ofMinute);
  const isEmpty = minute.delivered + minute.failed + minute.throttled === 0;
  return isEmpty ? added((report) => report.recent ?? ofMinute(report)) : minute;
}

function sum(reports: readonly HealthReport[], of: (report: HealthReport) => number): number {
  return reports.reduce((total, report) => total + of(report), 0);
}

/**
 * The state of a destination in the last minutes:
 * - `failing`: its circuit is open, or some of the attempts failed (`FAILING_SHARE`);
 * - `retrying`: nothing arrived, and deliveries wait for their next attempt; or most were refused for their rate;
 * - `behind`: what is delivered arrives, but deliveries wait too long, or more are put off than delivered;
 * - `no_traffic`: nothing was attempted, and nothing waits.
 */
export const PRESENT_STATES = [
  'healthy',
  'failing',
  'retrying',
  'behind',
  'no_traffic',
  'paused',
  'disabled',
] as const;
export type PresentState = (typeof PRESENT_STATES)[number];

/** A smaller part of failed attempts is that of single events which a destination refuses. */
const FAILING_SHARE = 0.01;
/** A queued delivery that waited for longer makes its destination `behind`, ms. */
const BEHIND_MS = 60_000;

/** The part of the recent attempts that failed, without those that were refused for their rate; null without attempts. */
export function failedShare({
  recent: { delivered, failed },
}: Pick<DestinationHealth, 'recent'>): number | null {
  return shareOf(failed, delivered + failed);
}

/** A part of a whole with four digits, 0 and 1 only where it is exactly that; null of nothing. */
export function shareOf(part: number, whole: number): number | null {
  if (whole === 0) return null;
  const share = part / whole;
  return share === 0 || share === 1
    ? share
    : Math.min(0.9999, Math.max(0.0001, Math.round(share * 10_000) / 10_000));
}

/** `health`: undefined where no process reports. `retrying`: the deliveries that wait for their next attempt. */
export function presentState(
  { enabled, paused = false }: { readonly enabled: boolean; readonly paused?: boolean | undefined },
  health: DestinationHealth | undefined,
  retrying: number,
): PresentState {
  if (!enabled) return 'disabled';
  if (paused) return 'paused';
  if (health === undefined) return retrying > 0 ? 'retrying' : 'no_traffic';
  const { delivered, throttled } = health.recent;
  if (health.circuit === 'open' || (failedShare(health) ?? 0) >= FAILING_SHARE) return 'failing';
  if (throttled > delivered || (delivered === 0 && retrying > 0)) return 'retrying';
  const isLate = (health.oldest_waiting_ms ?? 0) > BEHIND_MS;
  if (isLate || health.put_off_per_second > health.delivered_per_second) return 'behind';
  if (delivered > 0) return 'healthy';
  return health.waiting + health.under_way > 0 ? 'behind' : 'no_traffic';
}

/** To a hundredth. */
function round(value: number): number {
  return Math.round(value * 100) / 100;
}

/** Lifetime of a report, ms. One that is not renewed belongs to a process that ended or a destination at rest. */
export const HEALTH_REPORT_TTL_MS = 2 * 60_000;

/**
 * Latency histogram. All processes use the same bounds, so their counts can be added. Each bucket is a quarter wider
 * than the one before, from 1 ms to over ten minutes; a percentile is off by an eighth at most.
 */
const GROWTH = 1.25;
const LAST_BUCKET = 60;

/** Counts by bucket, without empty buckets, in order. */
export type LatencyCounts = readonly (readonly [bucket: number, count: number])[];

export function latencyBucket(ms: number): number {
  if (!(ms > 1)) return 0;
  return Math.min(Math.ceil(Math.log(ms) / Math.log(GROWTH)), LAST_BUCKET);
}

/** The latency that this share (0 to 1) of the counted attempts did not exceed, ms; undefined without attempts. */
export function latencyPercentile(counts: LatencyCounts, share: number): number | undefined {
  const total = counts.reduce((sum, [, count]) => sum + count, 0);
  let left = Math.max(1, Math.ceil(total * share));
  for (const [bucket, count] of counts) {
    left -= count;
    if (left <= 0) return middleOf(bucket);
  }
  return undefined;
}

export function addLatencies(all: readonly LatencyCounts[]): LatencyCounts {
  const sums = new Map<number, number>();
  for (const counts of all)
    for (const [bucket, count] of counts) sums.set(bucket, (sums.get(bucket) ?? 0) + count);
  return [...sums].sort(([a], [b]) => a - b);
}

function middleOf(bucket: number): number {
  if (bucket === 0) return 1;
  return Math.round((GROWTH ** bucket + GROWTH ** (bucket - 1)) / 2);
}

/**
 * Why a destination is bad: its circuit is open; most attempts fail; more deliveries are postponed than delivered;
 * queued deliveries have waited too long; it answered `410 Gone`, or refused its tokens, and was paused; it refuses more for
 * the rate than it takes.
 */
export const BAD_REASONS = [
  'circuit_open',
  'failing',
  'behind',
  'waiting',
  'gone',
  'access_refused',
  'rate_limited',
] as const;
export type BadReason = (typeof BAD_REASONS)[number];

export type DestinationState = 'well' | 'bad';

/** The state of a destination that notices reported last. Absent: none was, so it is well. */
export interface ReportedCondition {
  readonly state: DestinationState;
  /** Rate limit of reports: the time up to which earlier reports have used it, epoch ms. */
  readonly pacedUntil: number;
}

/** An error as a health change reports it. */
type HealthChangeError = Pick<HealthError, 'reason' | 'status'> & {
  /** ISO 8601 */
  readonly at: string;
};

/** A change of a destination from well to bad or back, held back as `AlertLimits` say, as notices report it. */
export interface HealthChange {
  /** A UUID: the id of all its notices. */
  readonly id: string;
  readonly state: DestinationState;
  /** Null when it is well. */
  readonly because: BadReason | null;
  /** Start of this state, ISO 8601. */
  readonly since: string;
  /** ISO 8601, see `ReportedCondition`. */
  readonly paced_until: string;
  /** The health of the destination at the time of the report. */
  readonly delivered_per_second: number;
  readonly failed_per_second: number;
  readonly oldest_waiting_ms: number | null;
  /** Newest first. */
  readonly last_errors: readonly HealthChangeError[];
}

/** The last reported health of a destination, as the catalog stores it. */
export interface DestinationCondition
  extends Pick<HealthChange, 'state' | 'because' | 'since' | 'paced_until'>,
    Turns {}

/** Bound on the characters of an error in a fact, which is kept for ever. */
const MAX_REASON = 200;

export function conditionAfter(
  before: DestinationCondition | undefined,
  { id, state, because, since, paced_until }: HealthChange,
): DestinationCondition {
  return { state, because, since, paced_until, ...turnsAfter(before, id) };
}

export function reportedCondition(
  condition: DestinationCondition | undefined,
): ReportedCondition | undefined {
  return condition && { state: condition.state, pacedUntil: Date.parse(condition.paced_until) };
}

/** The part of a health change that describes the destination's current health. */
export function healthMetricsOf(
  health: DestinationHealth,
): Pick<HealthChange, 'delivered_per_second' | 'failed_per_second' | 'oldest_waiting_ms' | 'last_errors'> {
  return {
    delivered_per_second: health.delivered_per_second,
    failed_per_second: health.failed_per_second,
    oldest_waiting_ms: health.oldest_waiting_ms,
    last_errors: health.last_errors.slice(0, MAX_LAST_ERRORS).map(({ at, reason, status }) => ({
      at: iso(at),
      reason: reason.slice(0, MAX_REASON),
      ...(status === undefined ? {} : { status }),
    })),
  };
}

/** The health of one destination in a minute or an hour. */
export interface HealthSample
  extends Pick<HealthReport, 'workspace_id' | 'destination_id' | 'delivered' | 'retry' | 'dead' | 'latency'> {
  /** Start of the minute or hour, epoch ms. */
  readonly at: number;
  /** As of a report, with the attempts that were refused for their rate. */
  readonly put_off: number;
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
