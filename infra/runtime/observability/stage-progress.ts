import {
  AppendTimes,
  type Clock,
  type EventLog,
  type Logger,
  type Metrics,
  messageOf,
  type PartitionLag,
  type PartitionProgress,
  type StageReads,
  type StageSample,
} from '@tributary/core';
import { StageMetrics } from './stage-metrics.ts';

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
