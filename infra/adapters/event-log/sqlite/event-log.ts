import { join } from 'node:path';
import {
  type EventLog,
  Fenced,
  InvalidInput,
  LayoutMismatch,
  messageOf,
  type NewEntry,
  type Position,
  type ReadOptions,
  type ReadResult,
  type Source,
  type Stage,
  type StageLag,
  type StageProgress,
  type StageReads,
  type StageRun,
  TOPIC,
  type TopicSpec,
  Unavailable,
} from '@tributary/core';
import { translateSqliteError } from '../../sqlite/database.ts';
import { checkEntries, specOf, specOfPartition } from '../entries.ts';
import {
  createRunner,
  entriesFrom,
  PartitionLoop,
  type RunnerOptions,
  SharedReads,
  type StageRunner,
} from '../stage-runner/partition-loop.ts';
import { type CommitThrottle, type OwnedPartition, PartitionLost } from '../stage-runner/work.ts';
import { dropExpired, dropSegmentsBelow } from './retention.ts';
import {
  createFirstSegment,
  layoutFaults,
  type StagePosition,
  TOPIC_GROUPS,
  type TopicGroup,
  topicGroupOf,
} from './segment-file.ts';
import { createTopicTables, type Ownership, rollIdleSegment } from './segment-writer.ts';
import { TopicGroupReader, TopicGroupWatch } from './topic-group-reader.ts';
import { TopicGroupWriter } from './topic-group-writer.ts';

export interface SqliteEventLogOptions extends RunnerOptions {
  /** Holds one folder per topic group; created when missing. Several processes may share it. */
  readonly folder: string;
  readonly topics: ReadonlyMap<string, TopicSpec>;
  /** A file this large is sealed and the next one begun. Default 256 MiB. */
  readonly segmentBytes?: number;
  /** How often expired files are dropped, ms. Default one minute; `false` to leave it to other processes. */
  readonly retentionEveryMs?: number | false;
  /** Bytes per topic group that may wait to be made durable before `Overloaded`. Default 64 MiB. */
  readonly maxUnconfirmedBytes?: number;
  /** How long a write waits for another process's write, ms. Default 5,000. */
  readonly busyTimeoutMs?: number;
}

const READ_BYTES = 1024 * 1024;
const MAX_READ_ENTRIES = 10_000;

interface OpenTopicGroup {
  readonly name: TopicGroup;
  readonly folder: string;
  readonly segmentAgeMs: number;
  readonly reader: TopicGroupReader;
  readonly watch: TopicGroupWatch;
  readonly writer: TopicGroupWriter;
}

/** Opens the embedded event log, and creates it when missing. `Unavailable` when its files cannot be opened now. */
export async function openSqliteEventLog(options: SqliteEventLogOptions): Promise<SqliteEventLog> {
  try {
    return new SqliteEventLog(options);
  } catch (error) {
    throw translateSqliteError(error);
  }
}

/** The embedded `EventLog`: SQLite files, one writer thread per topic group, reads in the calling thread. */
export class SqliteEventLog implements EventLog {
  readonly topics: ReadonlyMap<string, TopicSpec>;
  readonly #options: SqliteEventLogOptions;
  readonly #groups: ReadonlyMap<TopicGroup, OpenTopicGroup>;
  /** Includes the runs that are starting. */
  readonly #runs = new Set<Promise<SqliteStageRun>>();
  readonly #shared = new SharedReads();
  readonly #closing = new AbortController();
  readonly #runner: StageRunner;
  /** Stages and partitions that a warning about kept segments was logged for. */
  readonly #warnedOf = new Set<string>();
  readonly #retention: NodeJS.Timeout | undefined;
  #closed: Promise<void> | undefined;

  constructor(options: SqliteEventLogOptions) {
    this.topics = options.topics;
    this.#options = options;
    this.#runner = createRunner(this, options);
    this.#groups = new Map(TOPIC_GROUPS.map((name) => [name, this.#open(name)]));
    const every = options.retentionEveryMs ?? 60_000;
    this.#retention = every === false ? undefined : setInterval(() => this.#applyRetention(), every).unref();
  }

  /** Throws `LayoutMismatch` when the files have other partitions, or unread records of topics that are not declared. */
  async createTopics(): Promise<readonly string[]> {
    this.#checkOpen();
    const heads = [...this.#groups.values()].flatMap(({ reader }) => [...reader.heads()]);
    const faults = layoutFaults(new Map(heads), this.#named('stages').reader.positions(), this.topics);
    if (faults.length > 0) throw new LayoutMismatch(faults);
    for (const { name, folder } of this.#groups.values()) {
      const specs = [...this.topics.values()].filter((spec) => topicGroupOf(spec) === name);
      createTopicTables(folder, specs);
    }
    const stored = new Set(heads.map(([name]) => name.slice(0, name.lastIndexOf('/'))));
    return [...this.topics.keys()].filter((topic) => !stored.has(topic));
  }

  async append(topic: string, entries: readonly NewEntry[]): Promise<readonly Position[]> {
    this.#checkOpen();
    const spec = specOf(this.topics, topic);
    const bytes = checkEntries(spec, entries);
    if (entries.length === 0) return [];
    return await this.#groupOf(spec).writer.append(spec, entries, bytes);
  }

  async read(topic: string, partition: number, from: number, options: ReadOptions = {}): Promise<ReadResult> {
    const spec = this.#partitionOf(topic, partition);
    const { maxBytes = READ_BYTES, waitMs = 0, signal } = options;
    const { reader, watch } = this.#groupOf(spec);
    const limits = { maxBytes, maxEntries: MAX_READ_ENTRIES };
    let next = Math.max(0, from);
    const take = () => {
      const end = reader.knownEnd(topic, partition);
      const taken = reader.read(topic, partition, spec.packed, { offset: next, index: 0 }, limits);
      // Records below the known end that the read did not find were dropped: continue after that end.
      next = taken.at(-1)?.after.offset ?? Math.max(next, end);
      return taken;
    };
    let taken = take();
    if (taken.length === 0 && waitMs > 0) {
      const signals = signal ? [signal, this.#closing.signal] : [this.#closing.signal];
      await watch.until(topic, partition, next, signals, waitMs);
      if (!this.#closing.signal.aborted) taken = take();
    }
    return { entries: taken.map(({ entry }) => entry), next };
  }

  async end(topic: string, partition: number): Promise<number> {
    return this.#groupOf(this.#partitionOf(topic, partition)).reader.end(topic, partition);
  }

  async first(topic: string, partition: number): Promise<number> {
    return this.#groupOf(this.#partitionOf(topic, partition)).reader.first(topic, partition);
  }

  async offsetAt(topic: string, partition: number, ms: number): Promise<number> {
    return this.#groupOf(this.#partitionOf(topic, partition)).reader.offsetAt(topic, partition, ms);
  }

  async positionOf(stage: string, topic: string, partition: number): Promise<number | undefined> {
    this.#partitionOf(topic, partition);
    const of = this.#named('stages')
      .reader.positions()
      .find((at) => at.stage === stage && at.topic === topic && at.partition === partition);
    return of?.offset;
  }

  async progress(stages: readonly StageReads[]): Promise<readonly StageProgress[]> {
    this.#checkOpen();
    const stored = new Map(
      this.#named('stages')
        .reader.positions()
        .map(({ stage, topic, partition, offset }) => [`${stage} ${topic}/${partition}`, offset]),
    );
    return stages.map(({ stage, topics }) => ({
      stage,
      members: undefined,
      partitions: topics.flatMap((topic) => {
        const spec = specOf(this.topics, topic);
        const { reader } = this.#groupOf(spec);
        return Array.from({ length: spec.partitions }, (_, partition) => ({
          topic,
          partition,
          first: reader.first(topic, partition),
          position: stored.get(`${stage} ${topic}/${partition}`),
          end: reader.end(topic, partition),
        }));
      }),
    }));
  }

  /** Blocks the calling thread while a file is rewritten. */
  async dropBelow(topic: string, partition: number, offset: number): Promise<void> {
    const { folder, reader } = this.#groupOf(this.#partitionOf(topic, partition));
    if (offset > reader.end(topic, partition)) throw new InvalidInput(`${topic} does not reach to ${offset}`);
    await dropSegmentsBelow(folder, topic, partition, offset);
    reader.closeRemoved();
  }

  async run(stage: Stage): Promise<StageRun> {
    this.#checkOpen();
    const run = SqliteStageRun.start(stage, {
      runner: this.#runner,
      topics: this.topics,
      groupOf: (spec) => this.#groupOf(spec),
      shared: this.#shared,
      writer: this.#named('stages').writer,
    });
    this.#runs.add(run);
    const leave = this.#shared.join(stage.reads.map(({ topic }) => topic));
    run
      .then(({ ended }) => ended)
      .catch(() => {}) // reported to the caller of `run`, or by `ended`
      .finally(() => {
        this.#runs.delete(run);
        leave();
      });
    return run;
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  /** Drops expired files of every topic group now, as the timer does. Safe in several processes at once. */
  async dropExpired(): Promise<void> {
    this.#checkOpen();
    const now = this.#runner.clock();
    // First what is dropped without a write: it makes room for the rolls on a full disk.
    this.#dropSealed(now);
    for (const { folder, segmentAgeMs } of this.#groups.values()) rollIdleSegment(folder, segmentAgeMs, now);
    this.#dropSealed(now);
  }

  #dropSealed(now: number): void {
    const positions = this.#named('stages').reader.positions();
    for (const { name, folder, reader } of this.#groups.values()) {
      const { segments, keptFor } = dropExpired(folder, name, this.topics, positions, now);
      const { logger } = this.#options;
      if (segments > 0) logger.info({ topicGroup: name, dropped: segments }, 'expired segments dropped');
      if (keptFor !== undefined) this.#warnOfKeptSegments(name, keptFor);
      reader.closeRemoved();
    }
  }

  /** Logged once per stage and partition. See `REMOVED_STAGES`. */
  #warnOfKeptSegments(topicGroup: TopicGroup, position: StagePosition): void {
    const { stage, topic, partition } = position;
    const name = `${stage} ${topic}/${partition}`;
    if (this.#warnedOf.has(name)) return;
    this.#warnedOf.add(name);
    this.#options.logger.warn(
      { topicGroup, ...position },
      'segments are kept past their retention for a stage that has not read them',
    );
  }

  async #applyRetention(): Promise<void> {
    try {
      await this.dropExpired();
    } catch (error) {
      this.#options.logger.warn(
        { error: messageOf(error) },
        'expired segments were not dropped; the next run tries again',
      );
    }
  }

  async #close(): Promise<void> {
    clearInterval(this.#retention);
    await Promise.allSettled([...this.#runs].map(async (run) => (await run).stop()));
    this.#closing.abort();
    for (const { watch, writer, reader } of this.#groups.values()) {
      watch.close();
      await writer.close();
      reader.close();
    }
  }

  #open(name: TopicGroup): OpenTopicGroup {
    const { topics, logger, maxUnconfirmedBytes = 64 * 1024 * 1024, busyTimeoutMs = 5_000 } = this.#options;
    const { segmentBytes = 256 * 1024 * 1024 } = this.#options;
    const segmentAgeMs = this.#segmentAge(name);
    const folder = join(this.#options.folder, name);
    createFirstSegment(folder, this.#runner.clock());
    const reader = new TopicGroupReader(folder);
    const watch = new TopicGroupWatch(reader);
    const onDurable = (topic: string, partition: number, next: number) =>
      watch.advanced(topic, partition, next);
    const limits = { maxUnconfirmedBytes, busyTimeoutMs, segmentBytes, segmentAgeMs };
    const writer = new TopicGroupWriter({ folder, topics, logger, onDurable, ...limits });
    return { name, folder, segmentAgeMs, reader, watch, writer };
  }

  /** The age at which a segment is sealed, so that its records expire: an eighth of the shortest retention. */
  #segmentAge(group: TopicGroup): number {
    const retentions = [...this.topics.values()]
      .filter((spec) => topicGroupOf(spec) === group)
      .map(({ retentionMs }) => (retentionMs === 'forever' ? Number.POSITIVE_INFINITY : retentionMs));
    return Math.min(...retentions) / 8;
  }

  #groupOf(spec: TopicSpec): OpenTopicGroup {
    return this.#named(topicGroupOf(spec));
  }

  #named(name: TopicGroup): OpenTopicGroup {
    const group = this.#groups.get(name);
    if (!group) throw new Error(`no topic group ${name}`);
    return group;
  }

  /** `Unavailable` once the log is closed. */
  #partitionOf(topic: string, partition: number): TopicSpec {
    this.#checkOpen();
    return specOfPartition(this.topics, topic, partition);
  }

  #checkOpen(): void {
    if (this.#closed) throw new Unavailable('the event log is closed');
  }
}

/**
 * A flow stage stores a position without output records at most this often: each time costs an fsync. A crash repeats the
 * work of this interval.
 */
const FLOW_THROTTLE: CommitThrottle = { pauseAfter: () => 0, positionMs: 50 };

const ONE_ENTRY = { maxBytes: 1, maxEntries: 1 };

interface StageRunOptions {
  readonly runner: StageRunner;
  readonly topics: ReadonlyMap<string, TopicSpec>;
  /** The topic group of a source. */
  readonly groupOf: (spec: TopicSpec) => {
    readonly reader: TopicGroupReader;
    readonly watch: TopicGroupWatch;
  };
  readonly shared: Pick<SharedReads, 'of'>;
  /** The writer of the topic group `stages`, which holds output records and positions. */
  readonly writer: TopicGroupWriter;
}

interface SourcePartition {
  readonly source: Source;
  readonly spec: TopicSpec;
  readonly partition: number;
}

/** A stage running on every partition of its sources. A later run of the same stage, in any process, ends this one. */
class SqliteStageRun implements StageRun {
  readonly ended: Promise<void>;
  readonly #stage: Stage;
  readonly #options: StageRunOptions;
  readonly #stopping = new AbortController();
  readonly #leaving = new AbortController();
  readonly #partitions: readonly (SourcePartition & { readonly loop: PartitionLoop })[];

  /** Takes ownership of the partitions. `InvalidInput` for a stage that this log cannot run; else `Unavailable`. */
  static async start(stage: Stage, options: StageRunOptions): Promise<SqliteStageRun> {
    checkStage(stage, options.topics);
    const partitions = stage.reads.flatMap((source): SourcePartition[] => {
      const spec = specOf(options.topics, source.topic);
      return Array.from({ length: spec.partitions }, (_, partition) => ({ source, spec, partition }));
    });
    const owned = await options.writer.claimOwnership(
      partitions.map(({ spec, partition }) => {
        const start = options.groupOf(spec).reader.first(spec.name, partition);
        return { stage: stage.name, topic: spec.name, partition, start };
      }),
    );
    return new SqliteStageRun(stage, options, partitions, owned);
  }

  private constructor(
    stage: Stage,
    options: StageRunOptions,
    partitions: readonly SourcePartition[],
    ownerships: readonly Ownership[],
  ) {
    this.#stage = stage;
    this.#options = options;
    const signals = { stopping: this.#stopping.signal, leaving: this.#leaving.signal };
    this.#partitions = partitions.map((one, i) => {
      const ownership = ownerships[i];
      if (!ownership) throw new Error(`no ownership of ${one.spec.name}/${one.partition}`);
      const owned = ownedPartition(stage, one, ownership, options);
      const { runner } = options;
      const loop = new PartitionLoop({ runner, ...signals, stage, source: one.source, owned });
      return { ...one, loop };
    });
    this.ended = this.#run();
    // The failure was logged; a caller that stops the run without reading `ended` must not see an unhandled rejection.
    this.ended.catch(() => {});
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    const grace = setTimeout(() => this.#leave(), this.#options.runner.stopGraceMs);
    await this.ended.catch(() => {});
    clearTimeout(grace);
  }

  async lag(): Promise<readonly StageLag[]> {
    return this.#partitions.map(({ spec, partition, loop }) => {
      const { reader } = this.#options.groupOf(spec);
      const lag = reader.entriesBehind(spec.name, partition, loop.committed);
      const [position, end] = [loop.committed.offset, reader.knownEnd(spec.name, partition)];
      const about = { topic: spec.name, partition, position, end, lag, events: lag };
      if (lag === 0) return about;
      const [oldest] = reader.read(spec.name, partition, spec.packed, loop.committed, ONE_ENTRY);
      return { ...about, ...(oldest === undefined ? {} : { oldestAt: oldest.entry.timestamp }) };
    });
  }

  owned() {
    return this.#partitions.map(({ spec, partition }) => ({ topic: spec.name, partition }));
  }

  async #run(): Promise<void> {
    const loops = this.#partitions.map(({ loop }) => loop.run());
    try {
      await Promise.all(loops);
    } catch (thrown) {
      const reason =
        thrown instanceof PartitionLost && thrown.cause instanceof Fenced ? thrown.cause : thrown;
      this.#options.runner.logger.error(
        { stage: this.#stage.name, error: messageOf(reason) },
        'a stage failed for good; the process ends',
      );
      this.#stopping.abort();
      this.#leave();
      await Promise.allSettled(loops);
      throw reason;
    }
  }

  #leave(): void {
    this.#leaving.abort(new Error(`stage ${this.#stage.name} leaves`));
  }
}

function ownedPartition(
  stage: Stage,
  { spec, partition }: SourcePartition,
  { generation, committed }: Ownership,
  options: StageRunOptions,
): OwnedPartition {
  const topic = spec.name;
  const of = { stage: stage.name, topic, partition };
  const { reader, watch } = options.groupOf(spec);
  return {
    topic,
    partition,
    committed,
    ...(stage.kind === 'flow' ? { throttle: FLOW_THROTTLE } : {}),
    async fetch(from, limits, signal) {
      while (!signal.aborted) {
        // Reads are synchronous: yield to the event loop between two of them.
        await new Promise((resolve) => setImmediate(resolve));
        const end = reader.knownEnd(topic, partition);
        const recent = options.shared.of(topic, partition);
        const found = recent?.find(from);
        if (found !== undefined) return entriesFrom(found, from);
        const taken = reader.read(topic, partition, spec.packed, from, limits);
        const after = taken.at(-1)?.after;
        if (after !== undefined) {
          recent?.add({ from, after, taken });
          return taken;
        }
        // Records below the known end that the read did not find were dropped: wait for records after that end.
        await watch.until(topic, partition, Math.max(from.offset, end), [signal]);
      }
      return [];
    },
    end: async () => reader.end(topic, partition),
    commit: (from, to, outputRecords) =>
      options.writer.commit({ ...of, generation, from, to, outputRecords }),
  };
}

function checkStage(stage: Stage, topics: ReadonlyMap<string, TopicSpec>): void {
  for (const topic of [...stage.writes, TOPIC.poison]) {
    // Output records and position become durable in one transaction, so they must be in the same files.
    if (topicGroupOf(specOf(topics, topic)) !== 'stages') {
      throw new InvalidInput(`stage "${stage.name}" cannot emit to "${topic}"`);
    }
  }
}
