import { TributaryError } from '../primitives/errors.ts';
import type { LayoutSource } from './layout.ts';
import type { Stage } from './stage.ts';
import type { PartitionLag } from './stage-load.ts';
import type { TopicSpec } from './topics.ts';

/** Text headers of an entry; for names see `HEADER`. */
export type Headers = Readonly<Record<string, string>>;

/** Bound on a value, bytes of UTF-8. */
export const MAX_VALUE_BYTES = 1024 * 1024;

/** An entry to append. `value` is JSON text; order is kept per (topic, key). */
export interface NewEntry {
  readonly key: string;
  readonly value: string;
  readonly headers: Headers;
}

/** An entry as read. `timestamp`: when the log appended it, epoch ms. */
export interface LogEntry extends NewEntry {
  readonly position: Position;
  readonly timestamp: number;
}

export interface ReadOptions {
  /** Stop after about this many bytes of values. At least one record is returned when there is one. */
  readonly maxBytes?: number;
  /** Without new records, wait this long for one. Default 0. */
  readonly waitMs?: number;
  readonly signal?: AbortSignal;
}

export interface ReadResult {
  readonly entries: readonly LogEntry[];
  /** The offset to read from next. It may be behind the last entry, and behind `from` without any entry. */
  readonly next: number;
}

/** A setting of the medium by which it loses or refuses records that the log has to keep. */
export interface TopicFault {
  readonly message: string;
  /** True when it would lose the catalog in time. */
  readonly losesCatalog: boolean;
}

/** A running stage in this process. */
export interface StageRun {
  /** Takes no new entries, finishes and commits those in flight, leaves the group. Idempotent. */
  stop(): Promise<void>;
  /**
   * The lag of each partition of each source in entries (records on a distributed log), whichever process owns it.
   */
  lag(): Promise<readonly StageLag[]>;
  /** The partitions that this process owns now, in no order. Takes no request. */
  owned(): readonly OwnedPartition[];
  /** Resolves after `stop()`; rejects when the run failed and the process should end. */
  readonly ended: Promise<void>;
}

export interface StageLag extends PartitionLag {
  /** Events in these records. An estimate on a distributed log, where a record may hold several. */
  readonly events: number;
}

export interface OwnedPartition {
  readonly topic: string;
  readonly partition: number;
}

export interface StageReads {
  readonly stage: string;
  readonly topics: readonly string[];
}

/** Where a stage is, as the log itself has it, whichever process runs the stage, or none. */
export interface StageProgress {
  readonly stage: string;
  /** Processes that run it; undefined where the log has no consumer groups. */
  readonly members: number | undefined;
  readonly partitions: readonly PartitionProgress[];
}

export interface PartitionProgress {
  readonly topic: string;
  readonly partition: number;
  /** The first kept record. */
  readonly first: number;
  /** The committed position; undefined where the stage never ran. */
  readonly position: number | undefined;
  readonly end: number;
}

/**
 * The ordered durable log.
 *
 * Promises:
 * - `append` resolves after the entries are durable (fsync, or acknowledged by all in-sync replicas). When it
 *   rejects, the entries may or may not exist.
 * - Entries of one (topic, key) are read in the order in which one process appended them.
 * - The output records of a stage and its position are committed together. A reader sees the output records of each
 *   entry once, whatever process is killed and when; of two processes that believe to own a partition, only one can
 *   commit.
 * - `read` returns committed entries only, in order, without gaps.
 * - Records that `dropBelow` dropped never come back, and the offsets of the partition continue.
 *
 * Limits: a value has at most `MAX_VALUE_BYTES`.
 *
 * Errors:
 * - `Unavailable`: the medium does not answer; retry.
 * - `Overloaded`: the unconfirmed bytes exceed the bound; nothing was appended.
 * - `InvalidInput`: unknown topic.
 * - `TooLarge`: an operator set a lower limit on the medium, and some entries of this append exceed it; other appends
 *   are not affected.
 *
 * An implementer must not: confirm an append from memory, deliver one partition to a batch stage concurrently, sleep
 * inside a consumer, move a position past an entry with uncommitted output records, or block other partitions while
 * one waits.
 */
export interface EventLog {
  /** The declared topics by name. Look one up at each use: it may get more partitions. */
  readonly topics: ReadonlyMap<string, TopicSpec>;

  /**
   * Creates missing declared topics and returns their names. Safe to call from several processes at once. Rejects
   * with `LayoutMismatch` when existing topics do not fit the declared ones.
   */
  createTopics(): Promise<readonly string[]>;

  /**
   * Faults in settings of the medium that its operator may change, as texts for operators. Absent where there are no
   * such settings. `Unavailable` also while a topic is missing.
   */
  topicFaults?(): Promise<readonly TopicFault[]>;

  /**
   * Takes the partitions of topics from a catalog instead of the configuration, and returns a function that is to be
   * called when the catalog's layouts changed. From then on `append` is `Unavailable` until the catalog is ready. Absent
   * where topics cannot grow.
   */
  followLayouts?(source: LayoutSource): () => void;

  /**
   * Topics that have other partitions on the medium than are used, as texts for operators. Absent where topics cannot
   * grow.
   */
  otherPartitions?(): Promise<readonly string[]>;

  /**
   * Appends entries durably and returns their positions, in order. On a topic that is declared `packed`, entries of
   * one group commit with the same partition and headers (compared by reference first) become one record.
   */
  append(topic: string, entries: readonly NewEntry[]): Promise<readonly Position[]>;

  /**
   * Reads one partition from an offset (inclusive), outside of any stage. An offset below the first kept record reads
   * from that record.
   */
  read(topic: string, partition: number, from: number, options?: ReadOptions): Promise<ReadResult>;

  /**
   * How far the clock of this machine is ahead of those that stamp the records, ms; below 0 it is behind. Undefined while it
   * is not known. Absent where the records are stamped on this machine.
   */
  clockAheadMs?(): number | undefined;

  /** The offset of the next record of the partition. */
  end(topic: string, partition: number): Promise<number>;

  /** The offset of the first kept record; without any, that of the next one. */
  first(topic: string, partition: number): Promise<number>;

  /**
   * The offset to read from for records that were appended at `ms` (epoch ms) or later: that of the first such
   * record, or without one an offset that no later record will be below (`end`, or slightly less during appends).
   * Below the first kept record it may be any offset down to 0. Where a clock was set back, it may be any of the
   * possible offsets. Takes a few look-ups, whatever the size of the log.
   */
  offsetAt(topic: string, partition: number, ms: number): Promise<number>;

  /**
   * The committed position of a stage, whichever process runs it: all records below it are done. Undefined where the
   * stage never ran.
   */
  positionOf(stage: string, topic: string, partition: number): Promise<number | undefined>;

  /**
   * The progress of stages in all partitions of the topics that they read. A few requests for each stage, however many
   * partitions there are.
   */
  progress(stages: readonly StageReads[]): Promise<readonly StageProgress[]>;

  /**
   * Drops the records of a partition below an offset, for good. Readers see one step: a reader that starts at the
   * first kept record gets this offset or a later one. A reader below it at that moment may get some of the dropped
   * records, in order, before it continues at the offset. Does not wait for readers or stages. Safe to repeat, after
   * a crash and in several processes at once; the bytes are released when the last call resolved, as far as the
   * medium releases them (docs/decisions/0011-catalog-snapshot-and-rewrite.md). `InvalidInput` beyond the end.
   */
  dropBelow(topic: string, partition: number, offset: number): Promise<void>;

  /** Runs a stage as a member of the consumer group with its name, until `stop()`. */
  run(stage: Stage): Promise<StageRun>;

  /** Stops running stages, waits for appends under way, releases files and connections. Idempotent. */
  close(): Promise<void>;
}

/** The position of one entry. `index` counts the entries inside one record; 0 when it holds one. */
export interface Position {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  readonly index: number;
}

/** The text form in headers, stores and logs: `topic/partition/offset/index`. */
export function formatPosition(position: Position): string {
  return `${position.topic}/${position.partition}/${position.offset}/${position.index}`;
}

/** Parses the text of `formatPosition`; undefined for any other text. */
export function parsePosition(text: string): Position | undefined {
  const [, topic, partition, offset, index] =
    /^([^/]+)\/(\d{1,10})\/(\d{1,16})\/(\d{1,10})$/.exec(text) ?? [];
  if (topic === undefined) return undefined;
  return { topic, partition: Number(partition), offset: Number(offset), index: Number(index) };
}

/**
 * Existing topics have another layout than the declared ones. Continuing would lose the records of partitions and
 * topics that are not read any more. Thrown by `createTopics`, before anything is read or written.
 */
export class LayoutMismatch extends TributaryError {
  readonly code = 'layout_mismatch';
  readonly retryable = false;
  readonly faults: readonly string[];

  constructor(faults: readonly string[]) {
    super(`the event log was laid out otherwise:\n${faults.map((fault) => `  ${fault}`).join('\n')}`);
    this.faults = faults;
  }
}
