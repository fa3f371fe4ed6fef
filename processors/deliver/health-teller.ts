import {
  type Clock,
  type GaugeName,
  type HealthBoard,
  type HealthReport,
  type Labels,
  type Logger,
  latencyPercentile,
  type Metrics,
  messageOf,
} from '@tributary/core';
import type { DestinationReport } from './destination-calls.ts';
import { liveReports, TELL_EVERY_MS } from './live-reports.ts';
import { ReportRounds } from './report-rounds.ts';

/** Destinations that have figures under their own name, of all that a process has calls to; the others share one. */
const NAMED = 100;
const OTHERS = 'other';

export interface HealthTellerDependencies {
  /** Absent where nobody asks: then there are figures alone. */
  readonly healthBoard?: HealthBoard | undefined;
  /** Names this process; a new one at each start. */
  readonly process: string;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly logger: Logger;
  /** The workspace of a destination; undefined when it is gone. */
  workspaceOf(id: string): string | undefined;
  /** The destinations whose limits are of all processes together. */
  isShared(id: string): boolean;
}

type GaugeOfDestination = Extract<GaugeName, `tributary_destination_${string}`>;

interface ToldGauge {
  readonly name: GaugeOfDestination;
  readonly labels: Labels & { readonly destination: string };
}

/**
 * Tells every few seconds how the destinations of this process are doing, on the board and as figures, and learns
 * there how many processes share the limits of one. A board that does not answer is told again later: what it would
 * have shown is old by then.
 */
export class HealthTeller {
  readonly #dependencies: HealthTellerDependencies;
  readonly #rounds: ReportRounds;
  readonly #named = new Set<string>();
  /** All that was told last. */
  #told: ToldGauge[] = [];
  #processes: ReadonlyMap<string, number> = new Map();
  #isDown = false;

  constructor(dependencies: HealthTellerDependencies, reports: () => readonly DestinationReport[]) {
    this.#dependencies = dependencies;
    this.#rounds = new ReportRounds(TELL_EVERY_MS, reports, (told) => this.tell(told));
  }

  /** Begins to tell, and goes on while there is something to tell. */
  begin(): void {
    this.#rounds.begin();
  }

  /** How many processes share the limits of a destination, this one among them. */
  processesOf(id: string): number {
    return this.#processes.get(id) ?? 1;
  }

  async tell(reports: readonly DestinationReport[]): Promise<void> {
    const { healthBoard, process, workspaceOf, logger } = this.#dependencies;
    this.#measure(reports);
    if (healthBoard === undefined) return;
    const told = reports.flatMap((report): HealthReport[] => {
      const workspaceId = workspaceOf(report.destination_id);
      return workspaceId === undefined ? [] : [{ ...report, workspace_id: workspaceId, process }];
    });
    try {
      await healthBoard.tell(told);
      this.#processes = await this.#sharers(healthBoard, told);
      this.#isDown = false;
    } catch (error) {
      if (!this.#isDown)
        logger.warn({ error: messageOf(error) }, 'how destinations are doing cannot be told');
      this.#isDown = true;
    }
  }

  async #sharers(board: HealthBoard, told: readonly HealthReport[]): Promise<ReadonlyMap<string, number>> {
    const { isShared, clock } = this.#dependencies;
    const shared = told.filter(({ destination_id }) => isShared(destination_id));
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
    for (const { name, labels } of this.#told)
      if (!named.has(labels.destination)) metrics.ungauge(name, labels);
    this.#told = [];
    for (const [destination, together] of named) {
      const gauge = (name: GaugeOfDestination, value: number, more = {}) => {
        const labels = { destination, ...more };
        metrics.gauge(name, value, labels);
        this.#told.push({ name, labels });
      };
      const sum = (of: (report: DestinationReport) => number) =>
        together.reduce((total, report) => total + of(report), 0);
      const worst = (of: (report: DestinationReport) => number) => Math.max(0, ...together.map(of));
      for (const outcome of ['delivered', 'retry', 'dead', 'put_off'] as const) {
        const perSecond = sum((report) => (report[outcome] * 1_000) / report.window_ms);
        gauge('tributary_destination_deliveries_per_second', perSecond, { outcome });
      }
      for (const quantile of [0.5, 0.99]) {
        const ms = worst(({ latency }) => latencyPercentile(latency, quantile) ?? 0);
        gauge('tributary_destination_attempt_duration_seconds', ms / 1_000, { quantile: String(quantile) });
      }
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
