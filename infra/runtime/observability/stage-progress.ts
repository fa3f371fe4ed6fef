import {
  AppendTimes,
  type Clock,
  type EventLog,
  type Logger,
  type Metrics,
  messageOf,
  type PartitionLag,
  type PartitionProgress,
  type StageLoad,
  type StageReads,
  type StageSample,
  stageLoad,
} from '@tributary/core';
import { settledWithin } from './metrics.ts';

/** Records that one sampling may read to find out about partitions that do not move. */
const MAX_READS = 16;

/** The record found at a position that does not move. */
interface Found {
  readonly position: number;
  /** The offset of the first record at or after it, or behind the gap where there is none yet. */
  readonly next: number;
  /** When that record was appended, epoch ms. */
  readonly oldestAt?: number;
}

/**
 * Samples where stages are by the log alone, so that stages are seen which stand still, or which no process runs.
 *
 * The age of a lag follows from the ends that were seen before (`AppendTimes`). Where that does not tell, or a position did
 * not move since the last sampling, the record at it is read: a position before offsets without records, such as the
 * markers of transactions, is no lag. Each position is read once, and `MAX_READS` of them in one sampling.
 */
export class StageProgressReader {
  readonly #log: Pick<EventLog, 'progress' | 'read'>;
  readonly #stages: readonly StageReads[];
  /** By `topic/partition`. */
  readonly #times = new Map<string, AppendTimes>();
  /** The last position, by `stage topic/partition`. */
  readonly #positions = new Map<string, number>();
  readonly #found = new Map<string, Found>();

  constructor(log: Pick<EventLog, 'progress' | 'read'>, stages: readonly StageReads[]) {
    this.#log = log;
    this.#stages = stages;
  }

  /** All stages at this moment, by name. Rejects with `Unavailable` while the log does not answer. */
  async sample(now: Clock = Date.now): Promise<ReadonlyMap<string, StageSample>> {
    const progress = await this.#log.progress(this.#stages);
    const at = now();
    for (const { topic, partition, end } of progress.flatMap(({ partitions }) => partitions))
      this.#timesOf(topic, partition).ended(at, end);
    const reads = new Map<string, Promise<Found>>();
    const samples = await Promise.all(
      progress.map(async ({ stage, members, partitions }) => {
        const lags = partitions.map((of) => this.#lagOf(stage, of, reads));
        return [stage, { at, members, partitions: await Promise.all(lags) }] as const;
      }),
    );
    return new Map(samples);
  }

  async #lagOf(
    stage: string,
    { topic, partition, first, position: stored, end }: PartitionProgress,
    reads: Map<string, Promise<Found>>,
  ): Promise<PartitionLag> {
    const key = `${stage} ${topic}/${partition}`;
    // A position behind the end is of a deleted topic of the same name: the stage will begin at the first record.
    const position = stored === undefined || stored > end ? first : Math.max(first, stored);
    const hasMoved = this.#positions.get(key) !== position;
    this.#positions.set(key, position);
    const of = { topic, partition, position, end };
    if (position === end) return { ...of, lag: 0 };
    const times = this.#timesOf(topic, partition);
    const interpolated = times.timeOf(position);
    if (hasMoved && interpolated !== undefined) return { ...of, lag: end - position, oldestAt: interpolated };
    const found = await this.#findAt(key, of, reads);
    if (found === undefined) return { ...of, lag: end - position };
    const { next, oldestAt } = found;
    return { ...of, lag: Math.max(0, end - next), ...(oldestAt === undefined ? {} : { oldestAt }) };
  }

  /** Undefined where this sampling has read enough positions. */
  async #findAt(
    key: string,
    { topic, partition, position, end }: Pick<PartitionLag, 'topic' | 'partition' | 'position' | 'end'>,
    reads: Map<string, Promise<Found>>,
  ): Promise<Found | undefined> {
    const before = this.#found.get(key);
    const known = before?.position === position ? before : undefined;
    if (known !== undefined && (known.oldestAt !== undefined || known.next >= end)) return known;
    // Behind a gap there are records by now.
    const from = known?.next ?? position;
    const readKey = `${topic}/${partition}/${from}`;
    if (!reads.has(readKey) && reads.size >= MAX_READS) return known;
    const read = reads.get(readKey) ?? this.#read(topic, partition, from);
    reads.set(readKey, read);
    const found = { ...(await read), position };
    this.#found.set(key, found);
    return found;
  }

  async #read(topic: string, partition: number, from: number): Promise<Found> {
    const { entries, next } = await this.#log.read(topic, partition, from, { maxBytes: 1 });
    const [entry] = entries;
    if (entry === undefined) return { position: from, next };
    const { offset } = entry.position;
    this.#timesOf(topic, partition).appended(entry.timestamp, offset);
    return { position: from, next: offset, oldestAt: entry.timestamp };
  }

  #timesOf(topic: string, partition: number): AppendTimes {
    const key = `${topic}/${partition}`;
    const times = this.#times.get(key) ?? new AppendTimes();
    this.#times.set(key, times);
    return times;
  }
}

interface StageReporterTools {
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Epoch ms. Default `Date.now`. */
  readonly clock?: Clock;
}

/** Reports all stages by the log alone: for processes that run none of them. */
export class StageReporter {
  readonly #reader: StageProgressReader;
  readonly #stageMetrics: StageMetrics;
  readonly #logger: Logger;
  readonly #clock: Clock;

  constructor(
    log: Pick<EventLog, 'progress' | 'read'>,
    stages: readonly StageReads[],
    { logger, metrics, clock = Date.now }: StageReporterTools,
  ) {
    this.#clock = clock;
    this.#reader = new StageProgressReader(log, stages);
    this.#stageMetrics = new StageMetrics(metrics);
    this.#logger = logger;
  }

  /** If the log does not answer, the gauges keep their values for a while, and the time of their collection. */
  async report(): Promise<void> {
    const since = this.#clock();
    try {
      for (const [stage, sample] of await this.#reader.sample(this.#clock))
        this.#stageMetrics.report(stage, sample);
      this.#stageMetrics.collected(since);
    } catch (error) {
      this.#logger.warn(
        { error: messageOf(error) },
        'the lag of the stages is unknown; its last value is kept for a minute',
      );
      this.#stageMetrics.failed(this.#clock());
    }
  }
}

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
    await settledWithin([pending], WAIT_MS);
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
