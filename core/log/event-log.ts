import { TributaryError } from '../primitives/errors.ts';
import type { Stage } from './stage.ts';
import type { TopicSpec } from './topics.ts';

/** Text headers of an entry. Names are those of `headers.ts`. */
export type Headers = Readonly<Record<string, string>>;

/** A value at most, bytes of its UTF-8. */
export const MAX_VALUE_BYTES = 1024 * 1024;

/** What an append or a stage puts into a topic. `value` is JSON text; order is kept per (topic, key). */
export interface NewEntry {
  readonly key: string;
  readonly value: string;
  readonly headers: Headers;
}

/** One entry as read back. `timestamp` is the epoch millisecond at which the log took it. */
export interface LogEntry extends NewEntry {
  readonly position: Position;
  readonly timestamp: number;
}

export interface ReadOptions {
  /** Stop after about this many bytes of values; at least one record is returned when there is one. */
  readonly maxBytes?: number;
  /** When nothing is there yet, wait this long for something to come. Default 0. */
  readonly waitMs?: number;
  readonly signal?: AbortSignal;
}

export interface ReadResult {
  readonly entries: readonly LogEntry[];
  /** The offset to read from next. May be past the last entry, and past `from` although nothing was returned. */
  readonly next: number;
}

/** A setting of the medium by which it loses or refuses what the log has to keep. */
export interface TopicFault {
  readonly message: string;
  /** By it the catalog is lost with time. */
  readonly losesCatalog: boolean;
}

/** A stage at work in this process. */
export interface StageRun {
  /** Takes no more, finishes and commits what was taken, leaves the group. Idempotent. */
  stop(): Promise<void>;
  /** Entries (records, on a distributed log) behind the end, per partition of each source, whoever has it at work. */
  lag(): Promise<readonly StageLag[]>;
  /** Settles when the run ended: resolved after `stop()`, rejected when it died and the process should leave. */
  readonly ended: Promise<void>;
}

export interface StageLag {
  readonly topic: string;
  readonly partition: number;
  readonly lag: number;
  /** Events in these records; on a distributed log, where a record may hold several, an estimate from what was read. */
  readonly events: number;
  /** Whether this process has the partition at work. */
  readonly isOwned: boolean;
  /** When the log took the oldest of them, epoch ms; absent where there is none, or it was not read here. */
  readonly oldestAt?: number;
}

/**
 * The ordered durable medium.
 *
 * Promises:
 * - `append` resolves after the entries are durable (fsync, or acks from all in-sync replicas). When it rejects the
 *   entries may or may not exist.
 * - Entries of one (topic, key) are read in the order in which their appends were called by one process.
 * - A stage's emissions and the position after them are committed together. A reader of the emissions sees those of
 *   each entry once, whatever process was killed and when; two processes that believe to own one partition cannot
 *   both commit.
 * - `read` returns committed entries only, in order, without gaps.
 * - What `dropBelow` dropped never comes back, and a partition goes on with the offsets it had.
 *
 * Limits: a value is at most `MAX_VALUE_BYTES`. Errors: `Unavailable` when the medium does not answer (retry), `Overloaded` when
 * the unconfirmed bytes pass the bound (nothing was taken), `InvalidInput` for an unknown topic, `TooLarge` where an operator
 * bounds the medium to less than the limit: some of the entries of this append are too large, others' appends are not affected.
 *
 * An implementer must not: answer an append from memory, deliver one partition to a batch stage concurrently, sleep
 * inside a consumer, move a position past an entry whose emissions are not committed, or block other partitions while
 * one waits.
 */
export interface EventLog {
  /** The declared topics by name. */
  readonly topics: ReadonlyMap<string, TopicSpec>;

  /**
   * Creates what is declared and missing, and says the names. Safe to call from several processes at once. Rejects
   * with `LayoutMismatch` when what there is does not fit what is declared.
   */
  createTopics(): Promise<readonly string[]>;

  /**
   * What is wrong with settings of the medium that its operator may change, for people. Absent where there are none.
   * `Unavailable` also while a topic is missing.
   */
  topicFaults?(): Promise<readonly TopicFault[]>;

  /**
   * Makes entries durable and returns the position of each, in order. On a topic declared `packed` the entries of
   * one group commit that share partition and headers (compared by reference first) become one record.
   */
  append(topic: string, entries: readonly NewEntry[]): Promise<readonly Position[]>;

  /** Reads one partition from an offset on (inclusive), outside of any stage. Offsets below the first kept one
   *  are answered from there. */
  read(topic: string, partition: number, from: number, options?: ReadOptions): Promise<ReadResult>;

  /** The offset that the next record of the partition will get. */
  end(topic: string, partition: number): Promise<number>;

  /** The offset of the first record that is kept; where none is, that of the next one. */
  first(topic: string, partition: number): Promise<number>;

  /**
   * Where to begin reading for what the log took at `ms` (epoch milliseconds) or later: the offset of the first such
   * record; where none is, one that none of those to come will lie below (`end`, or just before it while others append).
   * Below the first record kept it may be any offset down to 0. Where a clock was set back there are several
   * records stamped so behind one stamped earlier, and it is any of these. Costs a few look-ups, however much there is.
   */
  offsetAt(topic: string, partition: number, ms: number): Promise<number>;

  /**
   * Where a stage of this name goes on, whoever has it at work: all below was taken and committed. Undefined where it
   * never ran.
   */
  positionOf(stage: string, topic: string, partition: number): Promise<number | undefined>;

  /**
   * Drops the records of a partition below an offset, for good. To readers it is one step: who begins at the first kept
   * finds the offset or later. Who reads below it at that moment may be given some of what is dropped, in order, before
   * going on at the offset. Nobody is waited for, no stage either. Safe to repeat, also after a crash in its midst, and
   * in several processes at once; only the last one that resolved says that the bytes are gone as far as the medium
   * gives them up (docs/decisions/0011-catalog-snapshot-and-rewrite.md). `InvalidInput` beyond the end.
   */
  dropBelow(topic: string, partition: number, offset: number): Promise<void>;

  /** Runs a stage as a member of the group named like it, until `stop()`. */
  run(stage: Stage): Promise<StageRun>;

  /** Stops what still runs, waits for appends under way, releases files and connections. Idempotent. */
  close(): Promise<void>;
}

/** Where one entry stands in the log. `index` counts the entries inside one record; 0 when it holds one. */
export interface Position {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  readonly index: number;
}

/** The form used in headers, stores and logs: `topic/partition/offset/index`. */
export function formatPosition(position: Position): string {
  return `${position.topic}/${position.partition}/${position.offset}/${position.index}`;
}

/** The position that `formatPosition` wrote; undefined for any other text. */
export function parsePosition(text: string): Position | undefined {
  const [, topic, partition, offset, index] =
    /^([^/]+)\/(\d{1,10})\/(\d{1,16})\/(\d{1,10})$/.exec(text) ?? [];
  if (topic === undefined) return undefined;
  return { topic, partition: Number(partition), offset: Number(offset), index: Number(index) };
}

/**
 * The topics there are were laid out otherwise than those declared. Going on would lose records without a word: those
 * of partitions or topics that nobody reads any more. Thrown by `createTopics`, before anything is read or written.
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
