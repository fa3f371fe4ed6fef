import {
  addCounts,
  type Clock,
  type Counters,
  durationMeasure,
  type Logger,
  type Metrics,
  messageOf,
  type RunCounts,
  type RunTally,
  type Transformation,
  type Transformed,
} from '@tributary/core';

/** Interval of writes to the counters, ms: a process that dies loses the counts since the last one. */
const FLUSH_EVERY_MS = 1_000;
/** Pending counts (by transformation and hour) at most, while the counters do not respond. */
const MAX_WAITING = 10_000;
/** Transformations with metrics of their own in a process; later ones share the label `other`. */
const LABELLED = 100;
const OTHERS = 'other';
const HOUR_MS = 3_600_000;

export interface RunMetricsDependencies {
  readonly counters: Pick<Counters, 'addRuns'>;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly logger: Logger;
}

/** The run of one event and its duration. */
export interface FinishedRun {
  readonly outcome: Transformed;
  readonly durationMs: number;
}

/**
 * Counts the runs of each transformation, in the metrics of this process and in the shared counters. A run that is repeated
 * after a crash or in the slow queue counts again.
 */
export class RunMetrics {
  readonly #dependencies: RunMetricsDependencies;
  readonly #labelled = new Set<string>();
  #waiting = new Map<string, RunTally>();
  #timer: NodeJS.Timeout | undefined;
  #flushing: Promise<void> = Promise.resolve();

  constructor(dependencies: RunMetricsDependencies) {
    this.#dependencies = dependencies;
  }

  note({ id, workspace_id }: Transformation, runs: readonly FinishedRun[]): void {
    if (runs.length === 0) return;
    const hour = Math.floor(this.#dependencies.clock() / HOUR_MS) * HOUR_MS;
    this.#add({ workspaceId: workspace_id, transformationId: id, hour, counts: countsOf(runs) });
    this.#show(id, runs);
    this.#timer ??= setTimeout(() => {
      this.#flushing = this.#flush();
    }, FLUSH_EVERY_MS).unref();
  }

  /** Writes the pending counts. */
  async close(): Promise<void> {
    clearTimeout(this.#timer);
    await this.#flushing;
    await this.#flush();
  }

  async #flush(): Promise<void> {
    this.#timer = undefined;
    const tallies = this.#waiting;
    this.#waiting = new Map();
    if (tallies.size === 0) return;
    try {
      await this.#dependencies.counters.addRuns([...tallies.values()]);
    } catch (error) {
      this.#dependencies.logger.warn(
        { error: messageOf(error) },
        'the counts of transformation runs could not be stored; they are kept and stored later',
      );
      for (const tally of tallies.values()) this.#add(tally);
    }
  }

  #add(tally: RunTally): void {
    const key = `${tally.transformationId}:${tally.hour}`;
    const known = this.#waiting.get(key);
    if (known === undefined && this.#waiting.size >= MAX_WAITING) return;
    this.#waiting.set(key, { ...tally, counts: addCounts(known?.counts ?? {}, tally.counts) });
  }

  #show(id: string, runs: readonly FinishedRun[]): void {
    const { metrics } = this.#dependencies;
    if (this.#labelled.size < LABELLED) this.#labelled.add(id);
    const transformation = this.#labelled.has(id) ? id : OTHERS;
    const outcomes = new Map<string, number>();
    for (const { outcome, durationMs } of runs) {
      const label = labelOf(outcome);
      outcomes.set(label, (outcomes.get(label) ?? 0) + 1);
      metrics.observe('tributary_transformation_run_duration_seconds', durationMs / 1000, { transformation });
    }
    for (const [outcome, count] of outcomes)
      metrics.count('tributary_transformation_runs_total', { transformation, outcome }, count);
  }
}

function labelOf(outcome: Transformed): string {
  if (!outcome.ok) return outcome.kind;
  if (outcome.events.length === 1) return 'ok';
  return outcome.events.length === 0 ? 'dropped' : 'fanned_out';
}

function countsOf(runs: readonly FinishedRun[]): RunCounts {
  const counts: Record<string, number> = {};
  const add = (measure: string, by = 1) => {
    counts[measure] = (counts[measure] ?? 0) + by;
  };
  for (const { outcome, durationMs } of runs) {
    add('runs');
    add(durationMeasure(durationMs));
    if (!outcome.ok) add('errors');
    else if (outcome.events.length === 0) add('dropped');
    else {
      add('outputs', outcome.events.length);
      if (outcome.events.length > 1) add('fanned_out');
    }
  }
  return counts;
}
