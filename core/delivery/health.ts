import type { BreakerState } from './breaker.ts';
import { addLatencies, type LatencyCounts, latencyPercentile } from './latency.ts';

export type CircuitState = BreakerState['kind'];

/** How an attempt failed. `reason` is made for people: short, no secrets. */
export interface HealthError {
  /** Epoch ms. */
  readonly at: number;
  readonly outcome: 'retry' | 'dead';
  readonly reason: string;
  readonly status?: number;
}

/** What one process tells of one destination it delivers to. Times are epoch ms of that process. */
export interface HealthReport {
  readonly workspace_id: string;
  readonly destination_id: string;
  /** Whose report it is; a process that starts again is another one. */
  readonly process: string;
  readonly at: number;
  /** The counts below are of so many ms before `at`: a minute, less of who began later. Never 0. */
  readonly window_ms: number;
  /** Attempts that ended, by what came of them. */
  readonly delivered: number;
  readonly retry: number;
  readonly dead: number;
  /** Deliveries that were put off without an attempt: the circuit was open. */
  readonly put_off: number;
  /** How long attempts took. */
  readonly latency: LatencyCounts;
  /** Deliveries in hand that no call was begun for, those in a call, and since when the oldest of the former waits. */
  readonly waiting: number;
  readonly under_way: number;
  readonly oldest_waiting_at: number | null;
  readonly circuit: CircuitState;
  readonly circuit_since: number;
  readonly last_delivered_at: number | null;
  /** Newest first, at most `KEPT_ERRORS`. */
  readonly last_errors: readonly HealthError[];
}

/** How a destination is doing, over all processes. Rates are deliveries a second over the last minute. */
export interface DestinationHealth {
  /** Of the newest report, epoch ms. */
  readonly at: number;
  readonly processes: number;
  readonly delivered_per_second: number;
  /** Attempts that did not deliver. */
  readonly failed_per_second: number;
  readonly put_off_per_second: number;
  /** Null when no attempt ended. */
  readonly p50_ms: number | null;
  readonly p99_ms: number | null;
  readonly waiting: number;
  readonly under_way: number;
  /** How long the oldest that waits for a call has waited, ms. What waits in a retry topic is not counted: see the deliveries that are retrying. */
  readonly oldest_waiting_ms: number | null;
  /** The worst of any process: open, else half-open, else closed; and since when. */
  readonly circuit: CircuitState;
  readonly circuit_since: number;
  readonly last_delivered_at: number | null;
  readonly last_errors: readonly HealthError[];
}

/** Errors that are told of a destination. */
export const KEPT_ERRORS = 5;

const WORST_FIRST: readonly CircuitState[] = ['open', 'half-open', 'closed'];

/** What the reports of a destination's processes say together; undefined without any. Their order does not matter. */
export function mergeHealth(reports: readonly HealthReport[]): DestinationHealth | undefined {
  if (reports.length === 0) return undefined;
  const perSecond = (countOf: (report: HealthReport) => number) =>
    round(sum(reports, (report) => (countOf(report) * 1_000) / report.window_ms));
  const latency = addLatencies(reports.map((report) => report.latency));
  const circuit = WORST_FIRST.find((state) => reports.some((report) => report.circuit === state)) ?? 'closed';
  const since = reports.filter((report) => report.circuit === circuit).map((report) => report.circuit_since);
  const waits = reports.flatMap(({ at, oldest_waiting_at: oldest }) =>
    oldest === null ? [] : [at - oldest],
  );
  const delivered = reports.flatMap(({ last_delivered_at: last }) => (last === null ? [] : [last]));
  return {
    at: Math.max(...reports.map(({ at }) => at)),
    processes: reports.length,
    delivered_per_second: perSecond((report) => report.delivered),
    failed_per_second: perSecond((report) => report.retry + report.dead),
    put_off_per_second: perSecond((report) => report.put_off),
    p50_ms: latencyPercentile(latency, 0.5) ?? null,
    p99_ms: latencyPercentile(latency, 0.99) ?? null,
    waiting: sum(reports, ({ waiting }) => waiting),
    under_way: sum(reports, ({ under_way }) => under_way),
    oldest_waiting_ms: waits.length === 0 ? null : Math.max(0, ...waits),
    circuit,
    circuit_since: Math.min(...since),
    last_delivered_at: delivered.length === 0 ? null : Math.max(...delivered),
    last_errors: reports
      .flatMap((report) => report.last_errors)
      .sort((a, b) => b.at - a.at)
      .slice(0, KEPT_ERRORS),
  };
}

function sum(reports: readonly HealthReport[], of: (report: HealthReport) => number): number {
  return reports.reduce((total, report) => total + of(report), 0);
}

/** To a hundredth. */
function round(value: number): number {
  return Math.round(value * 100) / 100;
}
