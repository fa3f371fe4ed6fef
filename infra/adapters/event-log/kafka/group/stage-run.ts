import {
  backoffMs,
  messageOf,
  type Source,
  type Stage,
  type StageLag,
  type StageRun,
  TOPIC,
  type TopicSpec,
  TributaryError,
} from '@tributary/core';
import { specOf } from '../../entries.ts';
import { PartitionLoop, type SharedReads, type StageRunner } from '../../stage-runner/partition-loop.ts';
import { type Cursor, FETCH_BYTES, PartitionLost, pause, unlessAborted } from '../../stage-runner/work.ts';
import { KafkaClient, offsetsOf } from '../client/client.ts';
import { PositionUnknown } from '../positions.ts';
import { Fetcher, PartitionReader } from '../reading.ts';
import { partitionsOf } from '../topics.ts';
import { type Assignee, Membership } from './membership.ts';
import { KafkaPartition, type StageGroup } from './owned-partition.ts';

/** How long a broker may wait for records, ms: while all partitions are idle, and while some are busy. */
const IDLE_WAIT_MS = 500;
const BUSY_WAIT_MS = 25;

/** A partition is busy when its next answer arrived within this time and was not taken yet, ms. */
const BUSY_FOR_MS = 1_000;

interface KafkaStageRunOptions extends Omit<StageGroup, 'stage' | 'client' | 'membership'> {
  readonly shared: Pick<SharedReads, 'of'>;
  readonly sessionTimeoutMs: number;
}

interface AtWork {
  readonly topic: string;
  readonly partition: number;
  readonly work: PartitionWork;
  readonly reader: PartitionReader;
}

/** A stage at work on the partitions that its consumer group assigns to this process. */
export class KafkaStageRun implements StageRun {
  readonly ended: Promise<void>;
  readonly #stage: Stage;
  readonly #options: KafkaStageRunOptions;
  readonly #group: StageGroup;
  readonly #client: KafkaClient;
  readonly #joinClient: KafkaClient;
  readonly #fetcher: Fetcher;
  readonly #membership: Membership;
  readonly #end = Promise.withResolvers<void>();
  readonly #unfollow: () => void;
  /** By `topic/partition`, topics by names in Kafka. */
  readonly #atWork = new Map<string, AtWork>();
  /** Partitions that were dropped and may still be at work. */
  readonly #dropped = new Map<string, Promise<unknown>>();
  #stopped: Promise<void> | undefined;

  /** `InvalidInput` for a stage that names topics which are not declared. */
  constructor(stage: Stage, options: KafkaStageRunOptions) {
    for (const topic of [...stage.reads.map((source) => source.topic), ...stage.writes, TOPIC.poison]) {
      specOf(options.topics, topic);
    }
    const { connection, logger, runner, sessionTimeoutMs } = options;
    // Other members finish the partitions that move before they join.
    const rebalanceTimeoutMs = Math.max(2 * sessionTimeoutMs, runner.stopGraceMs) + 5_000;
    this.#stage = stage;
    this.#options = options;
    this.#client = new KafkaClient({ connection, logger });
    this.#joinClient = new KafkaClient({ connection, logger, requestTimeoutMs: rebalanceTimeoutMs + 10_000 });
    this.#fetcher = new Fetcher(this.#client, () => (this.#isBusy() ? BUSY_WAIT_MS : IDLE_WAIT_MS));
    this.#membership = new Membership({
      groupId: this.#nameOf(stage.name),
      topics: () =>
        new Map(stage.reads.map(({ topic }) => [this.#nameOf(topic), this.#specOf(topic).partitions])),
      assignee: this.#assignee(),
      client: this.#client,
      joinClient: this.#joinClient,
      sessionTimeoutMs,
      rebalanceTimeoutMs,
      heartbeatMs: Math.min(1_000, sessionTimeoutMs / 4),
      backoff: runner.backoff,
      logger,
    });
    this.#group = { ...options, stage, client: this.#client, membership: this.#membership };
    this.ended = this.#end.promise;
    this.ended.catch(() => {}); // logged by `#die`; a caller that only stops the run need not handle it
    this.#unfollow = options.layouts.onGrowth(() => this.#regroup());
    this.#membership.start();
  }

  stop(): Promise<void> {
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  /**
   * Records of open transactions count: the coordinator writes the markers of a commit after it has confirmed it, and until
   * then the stable ends of the topics that a stage emitted to are behind its output records.
   */
  async lag(): Promise<readonly StageLag[]> {
    const packing = this.#packing();
    const all = this.#stage.reads.flatMap(({ topic }) =>
      partitionsOf(this.#options, topic).map((each) => ({ ...each, name: this.#nameOf(topic) })),
    );
    const partitions = all.map(({ name, partition }) => ({ topic: name, partition }));
    const stored = await this.#client.fetchOffsets(this.#membership.groupId, partitions);
    const ends = await offsetsOf(this.#client, partitions, 'end');
    return all.map(({ topic, name, partition }) => {
      const key = `${name}/${partition}`;
      const { work, reader } = this.#atWork.get(key) ?? {};
      const end = ends.get(key) ?? 0;
      const before = stored.get(key)?.offset ?? 0;
      // A position behind the end is of a deleted topic of the same name: the stage will begin at the first record.
      const position = work?.reached?.offset ?? (before <= end ? before : 0);
      const lag = Math.max(0, end - (reader?.pastGap(position) ?? position));
      const events = Math.round(lag * (packing.get(topic) ?? 1));
      const oldestAt = lag === 0 ? undefined : reader?.oldestAt(position);
      const about = { topic, partition, position, end, lag, events };
      return oldestAt === undefined ? about : { ...about, oldestAt };
    });
  }

  owned() {
    return [...this.#atWork.values()].map(({ topic, partition }) => ({ topic, partition }));
  }

  /** Entries in a record of each topic, on average. */
  #packing(): ReadonlyMap<string, number> {
    const read = [...this.#atWork.values()].flatMap(({ topic, reader }) => {
      const { entriesPerRecord } = reader;
      return entriesPerRecord === undefined ? [] : [{ topic, entriesPerRecord }];
    });
    return new Map(
      [...Map.groupBy(read, ({ topic }) => topic)].map(([topic, of]) => [
        topic,
        of.reduce((sum, { entriesPerRecord }) => sum + entriesPerRecord, 0) / of.length,
      ]),
    );
  }

  #assignee(): Assignee {
    return {
      owned: () => [...this.#atWork.keys()],
      take: (names) => {
        for (const name of names) if (!this.#atWork.has(name)) this.#take(name);
      },
      revoke: async (names) => {
        await Promise.all(names.map((name) => this.#finish(name)));
      },
      lost: () => {
        for (const name of [...this.#atWork.keys()]) this.#drop(name);
      },
    };
  }

  #take(name: string): void {
    if (this.#stopped) return;
    const cut = name.lastIndexOf('/');
    const partition = Number(name.slice(cut + 1));
    const source = this.#stage.reads.find(({ topic }) => this.#nameOf(topic) === name.slice(0, cut));
    if (!source) return;
    const { framing, runner, shared } = this.#options;
    // Earlier reads may be of a topic that was deleted since.
    shared.of(source.topic, partition)?.clear();
    const reader = new PartitionReader({
      fetcher: this.#fetcher,
      spec: this.#specOf(source.topic),
      name: this.#nameOf(source.topic),
      partition,
      framing,
      maxBytes: FETCH_BYTES,
      shared: () => shared.of(source.topic, partition),
    });
    const work = new PartitionWork({
      runner,
      stage: this.#stage,
      source,
      partition,
      after: this.#dropped.get(name) ?? Promise.resolve(),
      acquire: (leaving) =>
        new KafkaPartition(this.#group, source.topic, partition, reader, leaving).acquire(),
    });
    this.#atWork.set(name, { topic: source.topic, partition, work, reader });
    work.ended.catch((thrown: unknown) => this.#die(thrown)).finally(() => reader.close());
  }

  /** A topic that the stage reads may have more partitions. */
  #regroup(): void {
    this.#client.invalidateMetadata();
    this.#membership.regroup();
  }

  async #finish(name: string): Promise<void> {
    const atWork = this.#atWork.get(name);
    await atWork?.work.finish(this.#options.runner.stopGraceMs);
    if (this.#atWork.get(name) === atWork) this.#atWork.delete(name);
  }

  #drop(name: string): void {
    const atWork = this.#atWork.get(name);
    if (!atWork) return;
    this.#atWork.delete(name);
    atWork.work.drop();
    const ended = atWork.work.ended.catch(() => {});
    this.#dropped.set(name, ended);
    void ended.then(() => {
      if (this.#dropped.get(name) === ended) this.#dropped.delete(name);
    });
  }

  async #stop(): Promise<void> {
    this.#unfollow();
    await Promise.all([...this.#atWork.keys()].map((name) => this.#finish(name)));
    await Promise.all(this.#dropped.values());
    await this.#membership.leave();
    await this.#joinClient.close();
    await this.#membership.ended();
    await this.#client.close();
    this.#end.resolve();
  }

  /** A fault that no repetition heals: `ended` rejects with it, and the process exits. */
  #die(thrown: unknown): void {
    const fields = { stage: this.#stage.name, error: messageOf(thrown) };
    this.#options.logger.error(fields, 'a stage failed for good; the process ends');
    this.#end.reject(thrown);
    for (const name of [...this.#atWork.keys()]) this.#drop(name);
    void this.stop();
  }

  #isBusy(): boolean {
    const now = performance.now();
    for (const { reader } of this.#atWork.values()) {
      const ahead = reader.aheadFor(now);
      if (ahead !== undefined && ahead < BUSY_FOR_MS) return true;
    }
    return false;
  }

  #specOf(topic: string): TopicSpec {
    return specOf(this.#options.topics, topic);
  }

  #nameOf(topic: string): string {
    return this.#options.nameOf(topic);
  }
}

interface PartitionWorkOptions {
  readonly runner: StageRunner;
  readonly stage: Stage;
  readonly source: Source;
  readonly partition: number;
  /** Takes the partition over. `leaving` fires when this process loses it. */
  readonly acquire: (leaving: AbortSignal) => Promise<KafkaPartition>;
  /** Settles when earlier work of this process on the partition has ended. */
  readonly after: Promise<unknown>;
}

/** How often a lost position is looked up again, and how often it is reported, ms. */
const RETRY_POSITION_MS = 2_000;
const REPORT_EVERY_MS = 60_000;

/** A partition at work in this process, from the rebalance that assigns it to the one that moves it. */
class PartitionWork {
  /** Resolves when no entry of the partition is at work any more; rejects with a fault that no repetition heals. */
  readonly ended: Promise<void>;
  readonly #options: PartitionWorkOptions;
  readonly #stopping = new AbortController();
  readonly #leaving = new AbortController();
  #loop: PartitionLoop | undefined;
  /** By `performance.now()`: when it was last reported that the position is unknown. */
  #unknownReportedAt = Number.NEGATIVE_INFINITY;

  constructor(options: PartitionWorkOptions) {
    this.#options = options;
    this.ended = this.#run();
    this.ended.catch(() => {}).finally(() => this.#noteKnown());
  }

  /** All entries before it are done; undefined until the partition is taken over. */
  get reached(): Cursor | undefined {
    return this.#loop?.reached;
  }

  /** Takes no more entries and finishes those in flight; drops the rest after `graceMs`. */
  async finish(graceMs: number): Promise<void> {
    this.#stopping.abort();
    // No entry was taken.
    if (!this.#loop) this.drop();
    const grace = setTimeout(() => this.drop(), graceMs);
    await this.ended.catch(() => {});
    clearTimeout(grace);
  }

  /** Drops everything at once. */
  drop(): void {
    this.#stopping.abort();
    this.#leaving.abort(
      new PartitionLost(`${this.#options.source.topic}/${this.#options.partition} moved to another process`),
    );
  }

  async #run(): Promise<void> {
    const { after, runner, stage, source, partition } = this.#options;
    const { backoff, logger } = runner;
    await after.catch(() => {});
    for (let failures = 0; !this.#stopping.signal.aborted; ) {
      try {
        const leaving = this.#leaving.signal;
        this.#loop = undefined;
        this.#loop = this.#loopOver(await unlessAborted(this.#options.acquire(leaving), leaving));
        this.#noteKnown();
        failures = 0;
        await this.#loop.run();
      } catch (thrown) {
        if (this.#stopping.signal.aborted && !isFault(thrown)) return;
        if (isFault(thrown)) throw thrown;
        if (thrown instanceof PositionUnknown) {
          this.#noteUnknown(thrown);
          await pause(RETRY_POSITION_MS, this.#stopping.signal);
          continue;
        }
        const fields = { stage: stage.name, topic: source.topic, partition, error: messageOf(thrown) };
        if (thrown instanceof TributaryError && !thrown.retryable)
          logger.error(fields, 'the partition stopped with an error and is taken over again');
        else logger.warn(fields, 'the partition will be taken over again');
        await pause(backoffMs(failures++, backoff), this.#stopping.signal);
      }
    }
  }

  /** Logged as an error, once a minute. */
  #noteUnknown({ message }: PositionUnknown): void {
    const { stage, source, partition, runner } = this.#options;
    const { metrics, logger } = runner;
    const labels = { stage: stage.name, topic: source.topic, partition: String(partition) };
    metrics.gauge('tributary_stage_position_unknown', 1, labels);
    const now = performance.now();
    if (now < this.#unknownReportedAt + REPORT_EVERY_MS) return;
    this.#unknownReportedAt = now;
    logger.error({ stage: stage.name, topic: source.topic, partition }, message);
  }

  #noteKnown(): void {
    if (this.#unknownReportedAt === Number.NEGATIVE_INFINITY) return;
    const { stage, source, partition, runner } = this.#options;
    const labels = { stage: stage.name, topic: source.topic, partition: String(partition) };
    runner.metrics.removeGauge('tributary_stage_position_unknown', labels);
    this.#unknownReportedAt = Number.NEGATIVE_INFINITY;
  }

  #loopOver(owned: KafkaPartition): PartitionLoop {
    return new PartitionLoop({
      ...this.#options,
      owned,
      stopping: this.#stopping.signal,
      leaving: this.#leaving.signal,
    });
  }
}

/**
 * A lost partition is no fault, nor is an error of an engine, also one that no repetition heals: the process continues with
 * its other partitions, and with this one once an operator has corrected the cause.
 */
function isFault(thrown: unknown): boolean {
  return !(thrown instanceof PartitionLost || thrown instanceof TributaryError);
}
