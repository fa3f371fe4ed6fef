import {
  type Clock,
  type GaugeName,
  type HealthBoard,
  type HealthReport,
  type HealthSample,
  isQuiet,
  type Labels,
  type Logger,
  latencyPercentile,
  type Metrics,
  messageOf,
  startOf,
} from '@tributary/core';
import type { HealthIncrement } from './tally.ts';

/** Interval of reports, ms. */
const REPORT_EVERY_MS = 5_000;
/** A process without a report for this long has left its share of a destination's limits to the others, ms. */
const EXPIRED_AFTER_MS = 3 * REPORT_EVERY_MS;

/** Destinations with metrics under their own name, of all that a process delivers to; the others share one. */
const NAMED = 100;
const OTHERS = 'other';

/** A report without the names of its process and workspace. */
export type DestinationReport = Omit<HealthReport, 'workspace_id' | 'process'>;

/** Reports of all live processes on the destinations of these reports. `Unavailable` as the board. */
export async function liveReports(
  board: Pick<HealthBoard, 'read'>,
  about: readonly HealthReport[],
  clock: Clock,
): Promise<readonly HealthReport[]> {
  const live: HealthReport[] = [];
  for (const [workspaceId, reports] of Map.groupBy(about, ({ workspace_id }) => workspace_id)) {
    const known = await board.read(
      workspaceId,
      reports.map(({ destination_id }) => destination_id),
    );
    live.push(...known.filter(({ at }) => at > clock() - EXPIRED_AFTER_MS));
  }
  return live;
}

/** Calls `round` every `everyMs` with the reports of all destinations, until there are none. */
export class ReportRounds {
  readonly #everyMs: number;
  readonly #reports: () => readonly DestinationReport[];
  readonly #round: (reports: readonly DestinationReport[]) => Promise<void>;
  #next: NodeJS.Timeout | undefined;

  /** `round` never rejects. */
  constructor(
    everyMs: number,
    reports: () => readonly DestinationReport[],
    round: (reports: readonly DestinationReport[]) => Promise<void>,
  ) {
    this.#everyMs = everyMs;
    this.#reports = reports;
    this.#round = round;
  }

  /** Does nothing while a round is scheduled or runs. */
  begin(): void {
    this.#next ??= setTimeout(async () => {
      const reports = this.#reports();
      await this.#round(reports);
      this.#next = undefined;
      // A destination that was added during the round did not schedule the next one.
      if (reports.length > 0 || this.#reports().length > 0) this.begin();
    }, this.#everyMs).unref();
  }
}

export interface HealthReporterDependencies {
  /** Absent: health is reported as metrics alone. */
  readonly healthBoard?: HealthBoard | undefined;
  /** Id of this process; a new one at each start. */
  readonly process: string;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly logger: Logger;
  /** The workspace of a destination; undefined when it was deleted. */
  workspaceOf(id: string): string | undefined;
  /** Whether all processes together share the limits of a destination. */
  isShared(id: string): boolean;
  /** Counts of each destination since the last call. */
  takeCounts(): ReadonlyMap<string, HealthIncrement>;
}

type DestinationGauge = Extract<GaugeName, `tributary_destination_${string}`>;

interface ReportedGauge {
  readonly name: DestinationGauge;
  readonly labels: Labels & { readonly destination: string };
}

const NOTHING: HealthIncrement = { delivered: 0, retry: 0, dead: 0, put_off: 0, latency: [] };

/** What a report and the counts since the one before add to the minute of the report. */
function sampleOf(report: HealthReport, counts: HealthIncrement = NOTHING): HealthSample {
  const { workspace_id, destination_id, waiting, oldest_waiting_at: oldest, circuit } = report;
  const at = startOf(report.at, 'minute');
  const oldest_waiting_ms = oldest === null ? 0 : Math.max(0, report.at - oldest);
  return { workspace_id, destination_id, at, ...counts, waiting, oldest_waiting_ms, circuit };
}

/**
 * Reports every few seconds on the destinations of this process, to the board and as metrics, and reads from the board
 * how many processes share the limits of each. A report that the board does not take is dropped: the next one replaces it.
 * What it adds to the history is lost then, as the board may have taken it, and with a process that is killed.
 */
export class HealthReporter {
  readonly #dependencies: HealthReporterDependencies;
  readonly #rounds: ReportRounds;
  readonly #named = new Set<string>();
  /** Gauges of the last report. */
  #reported: ReportedGauge[] = [];
  #processes: ReadonlyMap<string, number> = new Map();
  #isDown = false;

  constructor(dependencies: HealthReporterDependencies, reports: () => readonly DestinationReport[]) {
    this.#dependencies = dependencies;
    this.#rounds = new ReportRounds(REPORT_EVERY_MS, reports, (current) => this.report(current));
  }

  /** Starts the rounds of reports, which continue while there are destinations. */
  begin(): void {
    this.#rounds.begin();
  }

  /** How many processes share the limits of a destination, this one among them. */
  processesOf(id: string): number {
    return this.#processes.get(id) ?? 1;
  }

  async report(reports: readonly DestinationReport[]): Promise<void> {
    const { healthBoard, process, workspaceOf, logger, takeCounts } = this.#dependencies;
    this.#measure(reports);
    if (healthBoard === undefined) return;
    const own = reports.flatMap((report): HealthReport[] => {
      const workspaceId = workspaceOf(report.destination_id);
      return workspaceId === undefined ? [] : [{ ...report, workspace_id: workspaceId, process }];
    });
    const counts = takeCounts();
    const samples = own
      .map((report) => sampleOf(report, counts.get(report.destination_id)))
      .filter((sample) => !isQuiet(sample));
    try {
      await healthBoard.report(own);
      await healthBoard.record(samples);
      this.#processes = await this.#sharers(healthBoard, own);
      this.#isDown = false;
    } catch (error) {
      if (!this.#isDown)
        logger.warn({ error: messageOf(error) }, 'the health of destinations cannot be reported');
      this.#isDown = true;
    }
  }

  async #sharers(board: HealthBoard, own: readonly HealthReport[]): Promise<ReadonlyMap<string, number>> {
    const { isShared, clock } = this.#dependencies;
    const shared = own.filter(({ destination_id }) => isShared(destination_id));
    const sharers = new Map<string, number>();
    for (const { destination_id: id } of await liveReports(board, shared, clock))
      sharers.set(id, (sharers.get(id) ?? 0) + 1);
    return sharers;
  }

  #measure(reports: readonly DestinationReport[]): void {
    const { metrics, clock } = this.#dependencies;
    const now = clock();
    this.#forgetAllBut(new Set(reports.map(({ destination_id }) => destination_id)));
    const named = Map.groupBy(reports, (report) => this.#nameOf(report));
    for (const { name, labels } of this.#reported)
      if (!named.has(labels.destination)) metrics.removeGauge(name, labels);
    this.#reported = [];
    for (const [destination, together] of named) {
      const gauge = (name: DestinationGauge, value: number, more = {}) => {
        const labels = { destination, ...more };
        metrics.gauge(name, value, labels);
        this.#reported.push({ name, labels });
      };
      const sum = (of: (report: DestinationReport) => number) =>
        together.reduce((total, report) => total + of(report), 0);
      const worst = (of: (report: DestinationReport) => number) => Math.max(0, ...together.map(of));
      for (const counted of ['delivered', 'retry', 'dead', 'throttled', 'put_off'] as const) {
        const perSecond = sum((report) => ((report[counted] ?? 0) * 1_000) / report.window_ms);
        const outcome = counted === 'put_off' ? 'not_attempted' : counted;
        gauge('tributary_destination_deliveries_per_second', perSecond, { outcome });
      }
      for (const quantile of [0.5, 0.99]) {
        const ms = worst(({ latency }) => latencyPercentile(latency, quantile) ?? 0);
        gauge('tributary_destination_attempt_quantile_seconds', ms / 1_000, { quantile: String(quantile) });
      }
      gauge(
        'tributary_destination_pace_per_second',
        sum(({ pace = 0 }) => pace),
      );
      gauge(
        'tributary_destination_deliveries_pending',
        sum(({ waiting }) => waiting),
      );
      gauge(
        'tributary_destination_deliveries_in_flight',
        sum(({ under_way }) => under_way),
      );
      gauge(
        'tributary_destination_oldest_pending_seconds',
        worst(({ oldest_waiting_at: at }) => (at === null ? 0 : now - at)) / 1_000,
      );
      gauge(
        'tributary_destination_circuits_open',
        sum(({ circuit }) => (circuit === 'closed' ? 0 : 1)),
      );
    }
  }

  /** The names of those that were forgotten are free for others. */
  #forgetAllBut(known: ReadonlySet<string>): void {
    for (const id of this.#named) if (!known.has(id)) this.#named.delete(id);
  }

  #nameOf({ destination_id: id }: DestinationReport): string {
    if (this.#named.has(id)) return id;
    if (this.#named.size >= NAMED) return OTHERS;
    this.#named.add(id);
    return id;
  }
}
