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
  type StageRun,
  type TopicSpec,
  Unavailable,
} from '@tributary/core';
import { translateSqliteError } from '../../sqlite/database.ts';
import { checkEntries } from '../append/record-packer.ts';
import { type CrashWatch, crashWatch } from '../suspects/crash-watch.ts';
import type { InHandTable } from '../suspects/in-hand-table.ts';
import { dropSegmentsBelow } from './drop-below.ts';
import { FAMILIES, type Family, familyOf } from './family.ts';
import { FamilyReader } from './family-reader.ts';
import { FamilyWatch } from './family-watch.ts';
import { FamilyWriter } from './family-writer.ts';
import { layoutFaults } from './layout.ts';
import { dropExpired } from './retention.ts';
import { createFirstSegment } from './segment-file.ts';
import { createTopicTables, rollIdleSegment } from './segment-writer.ts';
import type { StoredPosition } from './stage-position.ts';
import { SqliteStageRun, specOf } from './stage-run.ts';

export interface SqliteEventLogOptions {
  /** Holds one folder per family of topics; made when missing. Several processes may share it. */
  readonly folder: string;
  readonly topics: ReadonlyMap<string, TopicSpec>;
  readonly metrics: Metrics;
  readonly logger: Logger;
  /** Epoch ms; default `Date.now`. Judges due times and retention; records are stamped by the writing thread. */
  readonly clock?: Clock;
  /** A file this large is followed by the next one. Default 256 MiB. */
  readonly segmentBytes?: number;
  /** So is one this old, ms. Default an eighth of the shortest retention of its family (the catalog: never). */
  readonly segmentAgeMs?: number;
  /** How often expired files are dropped, ms. Default one minute; `false` leaves it to other processes. */
  readonly retentionEveryMs?: number | false;
  /** Bytes waiting to be made durable, per family, before `Overloaded`. Default 64 MiB. */
  readonly maxUnconfirmedBytes?: number;
  /** How long a write waits for one of another process, ms. Default 5,000. */
  readonly busyTimeoutMs?: number;
  /** Entries of one partition in a flow stage's hands at most. Default 100,000. */
  readonly maxUncommitted?: number;
  /** Bytes read from one partition at a time. Default 1 MiB. */
  readonly fetchBytes?: number;
  /** Waits before a repetition, ms: the first, doubling up to the cap. Default 50 to 5,000. */
  readonly backoff?: { readonly firstMs: number; readonly capMs: number };
  /** Follows which entries the stages have in hand, for the process to tell after they ended. Default: told nobody. */
  readonly inHand?: InHandTable;
  /** How long `stop()` lets a stage finish what it took, ms. Default 10,000. */
  readonly stopGraceMs?: number;
}

const DEFAULT_READ_BYTES = 1024 * 1024;
const MAX_READ_ENTRIES = 10_000;

interface OpenFamily {
  readonly name: Family;
  readonly folder: string;
  readonly segmentAgeMs: number;
  readonly reader: FamilyReader;
  readonly watch: FamilyWatch;
  readonly writer: FamilyWriter;
}

/** Opens (and makes, when missing) the embedded event log. `Unavailable` when its files cannot be opened now. */
export async function openSqliteEventLog(options: SqliteEventLogOptions): Promise<SqliteEventLog> {
  try {
    return new SqliteEventLog(options);
  } catch (error) {
    throw translateSqliteError(error);
  }
}

/** The embedded `EventLog`: SQLite files, one writer thread per family of topics, reads in the calling thread. */
export class SqliteEventLog implements EventLog {
  readonly topics: ReadonlyMap<string, TopicSpec>;
  readonly #options: SqliteEventLogOptions;
  readonly #clock: Clock;
  readonly #families: ReadonlyMap<Family, OpenFamily>;
  /** Those that start, too. */
  readonly #runs = new Set<Promise<SqliteStageRun>>();
  readonly #closing = new AbortController();
  readonly #crashes: CrashWatch;
  /** Stages that segments are kept for, of which an operator was told. */
  readonly #toldOf = new Set<string>();
  readonly #retention: NodeJS.Timeout | undefined;
  #closed: Promise<void> | undefined;

  constructor(options: SqliteEventLogOptions) {
    this.topics = options.topics;
    this.#options = options;
    this.#clock = options.clock ?? Date.now;
    this.#crashes = crashWatch(this, options.inHand);
    this.#families = new Map(FAMILIES.map((name) => [name, this.#open(name)]));
    const every = options.retentionEveryMs ?? 60_000;
    this.#retention = every === false ? undefined : setInterval(() => this.#applyRetention(), every).unref();
  }

  /** Throws `LayoutMismatch` when the files were made for other partitions, or hold what no declared topic reads. */
  async createTopics(): Promise<readonly string[]> {
    this.#checkOpen();
    const heads = [...this.#families.values()].flatMap(({ reader }) => [...reader.heads()]);
    const faults = layoutFaults(new Map(heads), this.#named('stages').reader.positions(), this.topics);
    if (faults.length > 0) throw new LayoutMismatch(faults);
    for (const { name, folder } of this.#families.values()) {
      const specs = [...this.topics.values()].filter((spec) => familyOf(spec) === name);
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
    return this.#family(spec).writer.append(spec, entries, bytes);
  }

  async read(topic: string, partition: number, from: number, options: ReadOptions = {}): Promise<ReadResult> {
    this.#checkOpen();
    const spec = this.#partitionOf(topic, partition);
    const { maxBytes = DEFAULT_READ_BYTES, waitMs = 0, signal } = options;
    const { reader, watch } = this.#family(spec);
    const limits = { maxBytes, maxEntries: MAX_READ_ENTRIES };
    let next = Math.max(0, from);
    const take = () => {
      const end = reader.knownEnd(topic, partition);
      const taken = reader.read(topic, partition, spec.packed, { offset: next, index: 0 }, limits);
      // What lay before an end that was known is kept no more where it is not found.
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
    return this.#family(this.#partitionOf(topic, partition)).reader.end(topic, partition);
  }

  async first(topic: string, partition: number): Promise<number> {
    this.#checkOpen();
    return this.#family(this.#partitionOf(topic, partition)).reader.first(topic, partition);
  }

  async offsetAt(topic: string, partition: number, ms: number): Promise<number> {
    this.#checkOpen();
    return this.#family(this.#partitionOf(topic, partition)).reader.offsetAt(topic, partition, ms);
  }

  async positionOf(stage: string, topic: string, partition: number): Promise<number | undefined> {
    this.#checkOpen();
    this.#partitionOf(topic, partition);
    const of = this.#named('stages')
      .reader.positions()
      .find((at) => at.stage === stage && at.topic === topic && at.partition === partition);
    return of?.offset;
  }

  /** Blocks the calling thread while a file is written anew. */
  async dropBelow(topic: string, partition: number, offset: number): Promise<void> {
    this.#checkOpen();
    const { folder, reader } = this.#family(this.#partitionOf(topic, partition));
    if (offset > reader.end(topic, partition)) throw new InvalidInput(`${topic} does not reach to ${offset}`);
    await dropSegmentsBelow(folder, topic, partition, offset);
    reader.tidy();
  }

  async run(stage: Stage): Promise<StageRun> {
    this.#checkOpen();
    const {
      metrics,
      logger,
      maxUncommitted = 100_000,
      fetchBytes = 1024 * 1024,
      stopGraceMs = 10_000,
    } = this.#options;
    const run = SqliteStageRun.start(stage, {
      topics: this.topics,
      readerOf: (spec) => this.#family(spec).reader,
      watchOf: (spec) => this.#family(spec).watch,
      writer: this.#named('stages').writer,
      backoff: this.#options.backoff ?? { firstMs: 50, capMs: 5_000 },
      fetchBytes,
      maxUncommitted,
      crashes: this.#crashes,
      stopGraceMs,
      clock: this.#clock,
      metrics,
      logger,
    });
    this.#runs.add(run);
    run
      .then(({ ended }) => ended)
      .catch(() => {}) // whoever asked for it, or waits for its end, hears of it
      .finally(() => this.#runs.delete(run));
    return run;
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  /** Drops expired files of every family now. The timer does the same; safe in several processes at once. */
  async dropExpired(): Promise<void> {
    this.#checkOpen();
    const now = this.#clock();
    for (const { folder, segmentAgeMs } of this.#families.values())
      rollIdleSegment(folder, segmentAgeMs, now);
    const positions = this.#named('stages').reader.positions();
    for (const { name, folder, reader } of this.#families.values()) {
      const { segments, keptFor } = dropExpired(folder, name, this.topics, positions, now);
      const { logger } = this.#options;
      if (segments > 0) logger.info({ family: name, dropped: segments }, 'expired segments dropped');
      if (keptFor !== undefined) this.#tellWhatIsKept(name, keptFor);
      reader.tidy();
    }
  }

  /** Once: it may be a stage that is down, and one that a release does not have any more keeps everything for good. */
  #tellWhatIsKept(family: Family, position: StoredPosition): void {
    const { stage, topic, partition } = position;
    const name = `${stage} ${topic}/${partition}`;
    if (this.#toldOf.has(name)) return;
    this.#toldOf.add(name);
    const about = { family, ...position };
    this.#options.logger.warn(
      about,
      'segments are kept past their retention for a stage that has not read them',
    );
  }

  async #applyRetention(): Promise<void> {
    try {
      await this.dropExpired();
    } catch (error) {
      this.#options.logger.warn({ error: messageOf(error) }, 'retention will be tried again');
    }
  }

  async #close(): Promise<void> {
    clearInterval(this.#retention);
    await Promise.allSettled([...this.#runs].map(async (run) => (await run).stop()));
    this.#closing.abort();
    for (const { watch, writer, reader } of this.#families.values()) {
      watch.close();
      await writer.close();
      reader.close();
    }
  }

  #open(name: Family): OpenFamily {
    const { topics, logger, maxUnconfirmedBytes = 64 * 1024 * 1024, busyTimeoutMs = 5_000 } = this.#options;
    const { segmentBytes = 256 * 1024 * 1024, segmentAgeMs = this.#segmentAge(name) } = this.#options;
    const folder = join(this.#options.folder, name);
    createFirstSegment(folder, this.#clock());
    const reader = new FamilyReader(folder);
    const watch = new FamilyWatch(reader);
    const onDurable = (topic: string, partition: number, next: number) =>
      watch.advanced(topic, partition, next);
    const limits = { maxUnconfirmedBytes, busyTimeoutMs, segmentBytes, segmentAgeMs };
    const writer = new FamilyWriter({ folder, topics, logger, onDurable, ...limits });
    return { name, folder, segmentAgeMs, reader, watch, writer };
  }

  #segmentAge(family: Family): number {
    const retentions = [...this.topics.values()]
      .filter((spec) => familyOf(spec) === family)
      .map(({ retentionMs }) => (retentionMs === 'forever' ? Number.POSITIVE_INFINITY : retentionMs));
    return Math.min(...retentions) / 8;
  }

  #family(spec: TopicSpec): OpenFamily {
    return this.#named(familyOf(spec));
  }

  #named(name: Family): OpenFamily {
    const family = this.#families.get(name);
    if (!family) throw new Error(`no family ${name}`);
    return family;
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
