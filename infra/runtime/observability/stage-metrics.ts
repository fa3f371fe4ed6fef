import { setTimeout as sleep } from 'node:timers/promises';
import { type Metrics, type StageLoad, type StageSample, stageLoad } from '@tributary/core';

/** The rates of a stage are those of this time, ms. */
const RATES_OVER_MS = 60_000;
/** Samples for rates are kept no closer than this, ms. */
const APART_MS = 5_000;
/** How long values are reported after the log answered last, ms. */
const VALID_FOR_MS = 60_000;

/** How long a report of metrics waits for the lag, ms. After that it contains the last known lag. */
const WAIT_MS = 300;

/** Refreshes the gauges of stages before they are reported, without waiting long. At most one refresh is pending. */
export function refreshing(refresh: () => Promise<void> | undefined): () => Promise<void> {
  let pending: Promise<void> | undefined;
  return async () => {
    pending ??= refresh()?.finally(() => {
      pending = undefined;
    });
    const over = new AbortController();
    await Promise.race([pending, sleep(WAIT_MS, undefined, { signal: over.signal }).catch(() => {})]);
    over.abort();
  };
}

/** Sets the gauges of stages: lag, positions and what follows from them. */
export class StageMetrics {
  readonly #metrics: Metrics;
  readonly #mostProcesses: number;
  /** By stage, the oldest first. */
  readonly #samples = new Map<string, StageSample[]>();
  readonly #capacity = new Map<string, number>();
  #collectedAt: number | undefined;

  /** Processes that can run a stage: one on SQLite, any number on Kafka. */
  constructor(metrics: Metrics, mostProcesses = Number.POSITIVE_INFINITY) {
    this.#metrics = metrics;
    this.#mostProcesses = mostProcesses;
  }

  /** Reports one stage. The rates are those since the oldest sample of the last minute. */
  report(stage: string, sample: StageSample): StageLoad {
    const metrics = this.#metrics;
    for (const { topic, partition, position, end, lag, oldestAt } of sample.partitions) {
      const labels = { stage, topic, partition: String(partition) };
      metrics.gauge('tributary_stage_lag_records', lag, labels);
      metrics.gauge('tributary_stage_position', position, labels);
      metrics.gauge('tributary_log_end_offset', end, { topic, partition: labels.partition });
      if (lag === 0 || oldestAt !== undefined) {
        const seconds = oldestAt === undefined ? 0 : Math.max(0, sample.at - oldestAt) / 1_000;
        metrics.gauge('tributary_stage_lag_seconds', seconds, labels);
      } else metrics.removeGauge('tributary_stage_lag_seconds', labels);
    }
    const load = stageLoad(this.#before(stage, sample), sample, this.#capacity.get(stage));
    if (load.capacityPerProcess !== undefined) this.#capacity.set(stage, load.capacityPerProcess);
    const partitions = Math.max(0, ...sample.partitions.map(({ partition }) => partition + 1));
    metrics.gauge('tributary_stage_partitions', partitions, { stage });
    const wanted =
      load.wantedProcesses === undefined ? undefined : Math.min(this.#mostProcesses, load.wantedProcesses);
    const optional = [
      ['tributary_stage_members', sample.members],
      ['tributary_stage_time_to_empty_seconds', load.secondsToEmpty],
      ['tributary_stage_wanted_processes', wanted],
    ] as const;
    for (const [name, value] of optional) if (value !== undefined) metrics.gauge(name, value, { stage });
    return load;
  }

  /** All stages of this process were reported, as of this time (epoch ms). */
  collected(at: number): void {
    this.#collectedAt = at;
    this.#metrics.gauge('tributary_stage_lag_collected_timestamp_seconds', at / 1_000);
  }

  /**
   * To be called while the log does not answer. The last values stay for a minute; then they are removed, as the lowest
   * lag of several processes would be the stale one of a process that is cut off.
   */
  failed(now: number): void {
    if (this.#collectedAt === undefined || now - this.#collectedAt <= VALID_FOR_MS) return;
    for (const [stage, samples] of this.#samples) {
      for (const { topic, partition } of samples.at(-1)?.partitions ?? []) {
        const labels = { stage, topic, partition: String(partition) };
        this.#metrics.removeGauge('tributary_stage_lag_records', labels);
        this.#metrics.removeGauge('tributary_stage_lag_events', labels);
        this.#metrics.removeGauge('tributary_stage_lag_seconds', labels);
        this.#metrics.removeGauge('tributary_stage_position', labels);
        this.#metrics.removeGauge('tributary_log_end_offset', { topic, partition: labels.partition });
      }
      this.#metrics.removeGauge('tributary_stage_members', { stage });
      this.#metrics.removeGauge('tributary_stage_time_to_empty_seconds', { stage });
      this.#metrics.removeGauge('tributary_stage_wanted_processes', { stage });
    }
    this.#samples.clear();
  }

  /** The sample that the rates begin at; keeps this one for later. */
  #before(stage: string, sample: StageSample): StageSample | undefined {
    const kept = this.#samples.get(stage) ?? [];
    this.#samples.set(stage, kept);
    while (kept.length > 1 && sample.at - (kept[1]?.at ?? 0) >= RATES_OVER_MS) kept.shift();
    const [before] = kept;
    if (sample.at - (kept.at(-1)?.at ?? 0) >= APART_MS) kept.push(sample);
    return before;
  }
}
