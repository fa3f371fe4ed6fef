import { join } from 'node:path';
import {
  type Clock,
  type EventLog,
  InvalidInput,
  LayoutMismatch,
  type Logger,
  type Metrics,
  messageOf,
  type NewEntry,
  type Position,
  type ReadOptions,
  type ReadResult,
  type Stage,
  type StageProgress,
  type StageReads,
  type StageRun,
  type TopicSpec,
  Unavailable,
} from '@tributary/core';
import { translateSqliteError } from '../../sqlite/database.ts';
import { checkEntries } from '../record-packer.ts';
import { SharedReads, type StageSpace, UNLIMITED_SPACE } from '../stage-runner/partition-loop.ts';
import type { InFlightTable } from '../stage-runner/suspects.ts';
import { type CrashWatch, crashWatch } from '../stage-runner/suspects.ts';
import { dropSegmentsBelow } from './segments/drop-below.ts';
import { dropExpired } from './segments/retention.ts';
import { createFirstSegment } from './segments/segment-file.ts';
import type { StagePosition } from './segments/segment-reader.ts';
import { createTopicTables, rollIdleSegment } from './segments/segment-writer.ts';
import { SqliteStageRun, specOf } from './stage-run.ts';
import { TopicGroupReader } from './topic-groups/topic-group-reader.ts';
import { TopicGroupWatch } from './topic-groups/topic-group-watch.ts';
import { TopicGroupWriter } from './topic-groups/topic-group-writer.ts';
import { layoutFaults, TOPIC_GROUPS, type TopicGroup, topicGroupOf } from './topic-groups/topic-groups.ts';

export interface SqliteEventLogOptions {
  /** Holds one folder per topic group; created when missing. Several processes may share it. */
  readonly folder: string;
  readonly topics: ReadonlyMap<string, TopicSpec>;
  readonly metrics: Metrics;
  readonly logger: Logger;
  /** Epoch ms; default `Date.now`. Used for due times and retention; the writing thread sets record timestamps. */
  readonly clock?: Clock;
  /** A file this large is sealed and the next one begun. Default 256 MiB. */
  readonly segmentBytes?: number;
  /** How often expired files are dropped, ms. Default one minute; `false` to leave it to other processes. */
  readonly retentionEveryMs?: number | false;
  /** Bytes per topic group that may wait to be made durable before `Overloaded`. Default 64 MiB. */
  readonly maxUnconfirmedBytes?: number;
  /** How long a write waits for another process's write, ms. Default 5,000. */
  readonly busyTimeoutMs?: number;
  /** Maximum of uncommitted entries of one partition in a flow stage. Default 100,000. */
  readonly maxUncommitted?: number;
  /** Delay before a retry, ms: the first, doubling up to the cap. Default 50 to 5,000. */
  readonly backoff?: { readonly firstMs: number; readonly capMs: number };
  /** Records which entries the stages are processing, to be read after a crash. Default: not recorded. */
  readonly inFlight?: InFlightTable;
  /** Default: unlimited. */
  readonly space?: StageSpace;
  /** How long `stop()` lets a stage finish the entries that it has, ms. Default 10,000. */
  readonly stopGraceMs?: number;
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
  readonly #clock: Clock;
  readonly #groups: ReadonlyMap<TopicGroup, OpenTopicGroup>;
  /** Includes the runs that are starting. */
  readonly #runs = new Set<Promise<SqliteStageRun>>();
  readonly #shared = new SharedReads();
  readonly #closing = new AbortController();
  readonly #crashes: CrashWatch;
  /** Stages and partitions that a warning about kept segments was logged for. */
  readonly #warnedOf = new Set<string>();
  readonly #retention: NodeJS.Timeout | undefined;
  #closed: Promise<void> | undefined;

  constructor(options: SqliteEventLogOptions) {
    this.topics = options.topics;
    this.#options = options;
    this.#clock = options.clock ?? Date.now;
    this.#crashes = crashWatch(this, options.inFlight);
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
    this.#checkOpen();
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
    this.#checkOpen();
    return this.#groupOf(this.#partitionOf(topic, partition)).reader.end(topic, partition);
  }

  async first(topic: string, partition: number): Promise<number> {
    this.#checkOpen();
    return this.#groupOf(this.#partitionOf(topic, partition)).reader.first(topic, partition);
  }

  async offsetAt(topic: string, partition: number, ms: number): Promise<number> {
    this.#checkOpen();
    return this.#groupOf(this.#partitionOf(topic, partition)).reader.offsetAt(topic, partition, ms);
  }

  async positionOf(stage: string, topic: string, partition: number): Promise<number | undefined> {
    this.#checkOpen();
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
    this.#checkOpen();
    const { folder, reader } = this.#groupOf(this.#partitionOf(topic, partition));
    if (offset > reader.end(topic, partition)) throw new InvalidInput(`${topic} does not reach to ${offset}`);
    await dropSegmentsBelow(folder, topic, partition, offset);
    reader.closeRemoved();
  }

  async run(stage: Stage): Promise<StageRun> {
    this.#checkOpen();
    const { metrics, logger, maxUncommitted = 100_000, stopGraceMs = 10_000 } = this.#options;
    const run = SqliteStageRun.start(stage, {
      topics: this.topics,
      groupOf: (spec) => this.#groupOf(spec),
      shared: this.#shared,
      writer: this.#named('stages').writer,
      backoff: this.#options.backoff ?? { firstMs: 50, capMs: 5_000 },
      fetchBytes: READ_BYTES,
      maxUncommitted,
      crashes: this.#crashes,
      space: this.#options.space ?? UNLIMITED_SPACE,
      stopGraceMs,
      clock: this.#clock,
      metrics,
      logger,
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
    const now = this.#clock();
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

  /** Logged once per stage and partition. A stage that a release removed keeps all segments for good. */
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
    createFirstSegment(folder, this.#clock());
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

  #partitionOf(topic: string, partition: number): TopicSpec {
    const spec = specOf(this.topics, topic);
    if (!Number.isInteger(partition) || partition < 0 || partition >= spec.partitions) {
      throw new InvalidInput(`topic "${topic}" has no partition ${partition}`);
    }
    return spec;
  }

  #checkOpen(): void {
    if (this.#closed) throw new Unavailable('the event log is closed');
  }
}
