import {
  type Catalog,
  type Clock,
  type Destination,
  type DestinationHealth,
  type Fact,
  type HealthBoard,
  type HealthChange,
  type HealthReport,
  healthMetricsOf,
  iso,
  type Logger,
  type Metrics,
  mergeHealth,
  messageOf,
  newId,
  reportedCondition,
} from '@tributary/core';
import { LRUCache } from 'lru-cache';
import { type AlertLimits, changeDue, evaluateHealth, type Streak, streakAfter } from './evaluation.ts';
import { type DestinationReport, liveReports, ReportRounds } from './reporter.ts';

/** Destinations in trouble whose streaks are kept. */
const REMEMBERED = 10_000;
/** Evaluations within the time after which a destination is reported bad, and bounds of their interval, ms. */
const EVALUATIONS = 4;
const MAX_EVERY_MS = 5_000;
const MIN_EVERY_MS = 100;

export interface HealthAlertsDependencies {
  readonly catalog: Pick<Catalog, 'propose'>;
  /** Reports of the other processes. Absent: there is no other process. */
  readonly healthBoard?: Pick<HealthBoard, 'read'> | undefined;
  /** Id of this process on the board. */
  readonly process: string;
  readonly limits: AlertLimits;
  /** The destination as it is now; undefined when it was deleted. */
  current(id: string): Destination | undefined;
  readonly clock: Clock;
  /** Ms of a monotonic clock. */
  readonly elapsed: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
}

interface Evaluated {
  readonly destination: Destination;
  readonly health: DestinationHealth;
}

/**
 * Evaluates every few seconds the destinations of this process, by the reports of all processes, and proposes to the
 * catalog each change to bad or back to well. Every process that delivers to a destination does so; the catalog's fold
 * accepts one of their proposals. Streaks are lost with the process, which delays a report. A proposal that the catalog
 * did not take is repeated after the next evaluation.
 *
 * A destination that does well by this process's own report, and was not reported bad, costs no call to the board.
 */
export class HealthAlerts {
  readonly #dependencies: HealthAlertsDependencies;
  readonly #rounds: ReportRounds;
  readonly #streaks = new LRUCache<string, Streak>({ max: REMEMBERED });
  #isDown = false;

  constructor(dependencies: HealthAlertsDependencies, reports: () => readonly DestinationReport[]) {
    this.#dependencies = dependencies;
    const everyMs = Math.max(
      MIN_EVERY_MS,
      Math.min(MAX_EVERY_MS, dependencies.limits.badAfterMs / EVALUATIONS),
    );
    this.#rounds = new ReportRounds(everyMs, reports, (current) => this.evaluate(current));
  }

  /** Starts the rounds of evaluations, which continue while there are destinations. */
  begin(): void {
    this.#rounds.begin();
  }

  /** Never rejects: a failed evaluation or proposal is repeated by the next round. */
  async evaluate(reports: readonly DestinationReport[]): Promise<void> {
    const { logger } = this.#dependencies;
    try {
      for (const evaluated of await this.#candidates(reports)) await this.#evaluateOne(evaluated);
      this.#isDown = false;
    } catch (error) {
      if (!this.#isDown)
        logger.warn({ error: messageOf(error) }, 'the health of destinations cannot be evaluated');
      this.#isDown = true;
    }
  }

  /**
   * Destinations that may be bad or were, with the health by all reports. Where all reports together are bad, at least
   * one process's own report is, as no share of the whole exceeds the largest of its parts: that process evaluates.
   */
  async #candidates(reports: readonly DestinationReport[]): Promise<readonly Evaluated[]> {
    const { current, limits, process } = this.#dependencies;
    const asked = reports.flatMap((report) => {
      const destination = current(report.destination_id);
      if (destination?.enabled !== true || destination.paused === true) return [];
      const own: HealthReport = { ...report, workspace_id: destination.workspace_id, process };
      const { id, condition } = destination;
      const known = condition?.state === 'bad' || this.#streaks.get(id) !== undefined;
      return known || isBad(own, limits) ? [{ destination, own }] : [];
    });
    const others = await this.#others(asked.map(({ own }) => own));
    return asked.flatMap(({ destination, own }) => {
      const health = mergeHealth([own, ...(others.get(destination.id) ?? [])]);
      return health === undefined ? [] : [{ destination, health }];
    });
  }

  /** Reports of other processes on the same destinations, by destination. */
  async #others(own: readonly HealthReport[]): Promise<ReadonlyMap<string, readonly HealthReport[]>> {
    const { healthBoard, process, clock } = this.#dependencies;
    const known = healthBoard === undefined ? [] : await liveReports(healthBoard, own, clock);
    const others = known.filter((report) => report.process !== process);
    return Map.groupBy(others, ({ destination_id }) => destination_id);
  }

  async #evaluateOne({ destination, health }: Evaluated): Promise<void> {
    const { limits, elapsed, clock } = this.#dependencies;
    const { id, condition } = destination;
    const streak = streakAfter(this.#streaks.get(id), evaluateHealth(health, limits), elapsed());
    if (streak === undefined) return;
    this.#streaks.set(id, streak);
    const reported = reportedCondition(condition);
    const due = changeDue(reported, streak, clock(), limits);
    if (due !== undefined) await this.#propose({ destination, health }, streak, due.pacedUntil);
    else if (streak.state === 'well' && reported?.state !== 'bad') this.#streaks.delete(id);
  }

  /** A conflict means that another process reported the change first. */
  async #propose({ destination, health }: Evaluated, streak: Streak, pacedUntil: number): Promise<void> {
    const { catalog, clock, elapsed, logger, metrics } = this.#dependencies;
    const now = clock();
    const { state, because } = streak;
    const since = iso(Math.round(now - (elapsed() - streak.since)));
    const change = { state, because, since, paced_until: iso(pacedUntil) };
    const verdict = await catalog.propose(healthChange(destination, change, health, iso(now)));
    if (!verdict.applied) return;
    metrics.count('tributary_destination_health_changes_total', { state });
    logger.warn({ destination: destination.id, state, because }, 'the health of a destination changed');
  }
}

/** The fact that the health of a destination changed. The catalog takes one of several from the same state. */
function healthChange(
  { id, condition }: Destination,
  change: Pick<HealthChange, 'state' | 'because' | 'since' | 'paced_until'>,
  health: DestinationHealth | undefined,
  at: string,
): Fact {
  const figures =
    health === undefined
      ? { delivered_per_second: 0, failed_per_second: 0, oldest_waiting_ms: null, last_errors: [] }
      : healthMetricsOf(health);
  return {
    v: 1,
    type: 'destination.turned',
    entity: id,
    expected_version: condition?.turns ?? 0,
    data: { id: newId(), ...change, ...figures },
    by: 'stage:deliver',
    from: { address: '', request_id: '' },
    at,
  };
}

function isBad(report: HealthReport, limits: AlertLimits): boolean {
  const health = mergeHealth([report]);
  return health !== undefined && evaluateHealth(health, limits).kind === 'bad';
}

interface PauseAfter410Dependencies {
  readonly catalog: Pick<Catalog, 'propose'>;
  /** The destination as it is now; undefined when it was deleted. */
  current(id: string): Destination | undefined;
  /** The report on a destination, for the notice. */
  reportOf(id: string): DestinationReport | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
}

/**
 * Pauses destinations that answered `410 Gone` and proposes a notice. A pause that the catalog refuses, because another
 * process made it or the destination was changed meanwhile, is dropped: the next 410 proposes it again.
 */
export class PauseAfter410 {
  readonly #dependencies: PauseAfter410Dependencies;
  readonly #pausing = new Set<string>();

  constructor(dependencies: PauseAfter410Dependencies) {
    this.#dependencies = dependencies;
  }

  /** `version` is the one that answered: settings changed since may point elsewhere. Never rejects. */
  async pause(id: string, version: number): Promise<void> {
    if (this.#pausing.has(id)) return;
    this.#pausing.add(id);
    try {
      await this.#pause(id, version);
    } catch (error) {
      const { logger } = this.#dependencies;
      logger.warn(
        { destination: id, error: messageOf(error) },
        'a destination that answered 410 Gone could not be paused; the next round tries again',
      );
    } finally {
      this.#pausing.delete(id);
    }
  }

  /** The notice comes first: after a crash in between the next 410 repeats it, so it is not lost. */
  async #pause(id: string, version: number): Promise<void> {
    const { catalog, current, clock, logger, metrics } = this.#dependencies;
    const destination = current(id);
    if (destination?.version !== version || destination.paused === true) return;
    const at = iso(clock());
    const report = this.#dependencies.reportOf(id);
    const health =
      report && mergeHealth([{ ...report, workspace_id: destination.workspace_id, process: '' }]);
    const paced_until = destination.condition?.paced_until ?? at;
    const change = { state: 'bad', because: 'gone', since: at, paced_until } as const;
    const noticed = await catalog.propose(healthChange(destination, change, health, at));
    if (noticed.applied) metrics.count('tributary_destination_health_changes_total', { state: 'bad' });
    const paused = await catalog.propose({
      v: 1,
      type: 'destination.updated',
      entity: id,
      expected_version: version,
      data: { paused: true, paused_because: { reason: 'gone', at } },
      by: 'stage:deliver',
      from: { address: '', request_id: '' },
      at,
    });
    if (paused.applied) logger.warn({ destination: id }, 'a destination answered 410 Gone and was paused');
  }
}
