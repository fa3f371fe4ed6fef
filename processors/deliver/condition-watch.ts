import {
  afterLook,
  type Catalog,
  type Clock,
  type ConditionLimits,
  type Destination,
  type DestinationHealth,
  figuresOf,
  type HealthBoard,
  type HealthReport,
  iso,
  judge,
  type Logger,
  type Metrics,
  mergeHealth,
  messageOf,
  newId,
  type Streak,
  toldOf,
  turnDue,
} from '@tributary/core';
import { LRUCache } from 'lru-cache';
import type { DestinationReport } from './destination-calls.ts';
import { liveReports } from './live-reports.ts';
import { ReportRounds } from './report-rounds.ts';

/** Destinations that are in trouble here, of which it is remembered since when. */
const REMEMBERED = 10_000;
/** How often destinations are looked at, ms: so often within the time after which one is told bad... */
const LOOKS = 4;
const MAX_EVERY_MS = 5_000;
const MIN_EVERY_MS = 100;

export interface ConditionWatchDependencies {
  readonly catalog: Pick<Catalog, 'propose'>;
  /** Where the other processes tell of the same destinations. Absent: there is none. */
  readonly healthBoard?: Pick<HealthBoard, 'read'> | undefined;
  /** This process, by its name on the board. */
  readonly process: string;
  readonly limits: ConditionLimits;
  /** The destination as it is now; undefined when it is gone. */
  current(id: string): Destination | undefined;
  readonly clock: Clock;
  /** Ms that never go back. */
  readonly elapsed: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
}

interface Seen {
  readonly destination: Destination;
  readonly health: DestinationHealth;
}

/**
 * Finds, every few seconds, which destinations of this process turned bad, or well again, by what all processes tell of
 * them, and proposes that to the catalog. Each process that delivers to one does so by itself; the fold lets one of
 * them through. Since when one is bad is forgotten with the process: another has to find it for as long. What the
 * catalog did not take is proposed again with the next look.
 *
 * A destination that does well, and is not known to be bad, costs nothing but a look at this process's own figures.
 */
export class ConditionWatch {
  readonly #dependencies: ConditionWatchDependencies;
  readonly #rounds: ReportRounds;
  readonly #streaks = new LRUCache<string, Streak>({ max: REMEMBERED });
  #isDown = false;

  constructor(dependencies: ConditionWatchDependencies, reports: () => readonly DestinationReport[]) {
    this.#dependencies = dependencies;
    const everyMs = Math.max(MIN_EVERY_MS, Math.min(MAX_EVERY_MS, dependencies.limits.badAfterMs / LOOKS));
    this.#rounds = new ReportRounds(everyMs, reports, (told) => this.look(told));
  }

  /** Begins to look, and goes on while there is something to look at. */
  begin(): void {
    this.#rounds.begin();
  }

  /** Never rejects: what it could not ask or say it asks and says again. */
  async look(reports: readonly DestinationReport[]): Promise<void> {
    const { logger } = this.#dependencies;
    try {
      for (const seen of await this.#inQuestion(reports)) await this.#judge(seen);
      this.#isDown = false;
    } catch (error) {
      if (!this.#isDown)
        logger.warn({ error: messageOf(error) }, 'whether destinations turned bad cannot be found out');
      this.#isDown = true;
    }
  }

  /**
   * Those that may be bad or were, by what all processes tell of them. Where all of them together are bad, one is by its
   * own figures, as no share of the whole is larger than the largest of its parts: that one looks.
   */
  async #inQuestion(reports: readonly DestinationReport[]): Promise<readonly Seen[]> {
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

  /** What other processes tell of the same destinations, by their ids. */
  async #others(own: readonly HealthReport[]): Promise<ReadonlyMap<string, readonly HealthReport[]>> {
    const { healthBoard, process, clock } = this.#dependencies;
    const told = healthBoard === undefined ? [] : await liveReports(healthBoard, own, clock);
    const others = told.filter((report) => report.process !== process);
    return Map.groupBy(others, ({ destination_id }) => destination_id);
  }

  async #judge({ destination, health }: Seen): Promise<void> {
    const { limits, elapsed, clock } = this.#dependencies;
    const { id, condition } = destination;
    const streak = afterLook(this.#streaks.get(id), judge(health, limits), elapsed());
    if (streak === undefined) return;
    this.#streaks.set(id, streak);
    const told = toldOf(condition);
    const due = turnDue(told, streak, clock(), limits);
    if (due !== undefined) await this.#propose({ destination, health }, streak, due.pacedUntil);
    else if (streak.state === 'well' && told?.state !== 'bad') this.#streaks.delete(id);
  }

  /** A conflict means that another process said so first. */
  async #propose({ destination, health }: Seen, streak: Streak, pacedUntil: number): Promise<void> {
    const { catalog, clock, elapsed, logger, metrics } = this.#dependencies;
    const now = clock();
    const { state, because } = streak;
    const verdict = await catalog.propose({
      v: 1,
      type: 'destination.turned',
      entity: destination.id,
      expected_version: destination.condition?.turns ?? 0,
      data: {
        id: newId(),
        state,
        because,
        since: iso(Math.round(now - (elapsed() - streak.since))),
        paced_until: iso(pacedUntil),
        ...figuresOf(health),
      },
      by: 'stage:deliver',
      from: { address: '', request_id: '' },
      at: iso(now),
    });
    if (!verdict.applied) return;
    metrics.count('tributary_destination_health_changes_total', { state });
    logger.warn({ destination: destination.id, state, because }, 'a destination turned');
  }
}

function isBad(report: HealthReport, limits: ConditionLimits): boolean {
  const health = mergeHealth([report]);
  return health !== undefined && judge(health, limits).kind === 'bad';
}
