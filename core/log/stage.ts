import type { StageNote } from '../funnel/notes.ts';
import type { ScopeBytes } from '../ports/counters.ts';
import type { LogEntry, NewEntry } from './event-log.ts';

/** A record that a stage emits. It becomes visible together with the position after its cause, or never. */
export interface OutputRecord extends NewEntry {
  readonly topic: string;
}

/** A topic a stage reads, with an optional delay. */
export interface Source {
  readonly topic: string;
  /**
   * When an entry is due that was appended at this time; both epoch ms. It depends on nothing else and never decreases, so
   * due times are in the order of the log: no due entry is behind one that is not. A record with a wait of its own takes
   * several waits: see `hopStep`. Absent: due at once.
   */
  dueAt?(appendedAt: number): number;
  /** The first offset of a partition that is not processed. Absent: all are. */
  end?(partition: number): number;
}

export interface Batch {
  readonly topic: string;
  readonly partition: number;
  /** In order, never empty. */
  readonly entries: readonly LogEntry[];
}

/** The context that the log gives a stage with its input. */
export interface StageContext {
  /** Aborted when the partition is lost or the process stops: end all waits, as results are dropped. */
  readonly signal: AbortSignal;
  /** Aborted when the stage takes no new entries and finishes those in flight. */
  readonly stopping?: AbortSignal;
  /**
   * Backpressure for a flow stage that emits much for one entry; call it before emitting more. Undefined while the
   * partition has room for further output records, and always for its oldest unfinished entry; else it resolves at
   * the next change. Throws once the partition was left.
   */
  room?(): Promise<void> | undefined;
  /**
   * The current end of the partition of the input. An offset that a store returned earlier and that lies beyond it is
   * of a log that was replaced. `Unavailable` when the log does not answer. Absent where the log cannot provide it.
   */
  end?(): Promise<number>;
  /**
   * For a batch stage that emits much for one entry: ends the batch after its first `entries`, at least one, because
   * their output records fill one commit. The others are delivered again. Absent where the whole batch must be done.
   */
  endBatch?(entries: number): void;
  /**
   * Counts the outcome of the entry (in a batch stage: of the batch). The counts of one commit are summed up and appended
   * to `funnel.counts` with its output records, so each entry is counted once, whatever is killed; counts alone wait for
   * a commit as positions do. Counts of an entry that throws are dropped. Absent where nothing is counted.
   */
  count?(note: StageNote): void;
}

/** The form of the records of counts. */
export type CountsForm = 'deflated' | 'plain';

/** The context of one entry of a flow stage, with the callbacks for its result. */
export interface FlowContext extends StageContext {
  /** Bytes of the entry: of its value in UTF-8, its key and its headers. */
  readonly bytes: number;
  /** The entry is done, with these output records. */
  done(outputRecords: readonly OutputRecord[]): void;
  /** The entry failed. */
  failed(thrown: unknown): void;
}

interface StageBase {
  /** Also the name of the consumer group. */
  readonly name: string;
  readonly reads: readonly Source[];
  /** Topics that it may emit to; emitting to another topic counts as a throw. */
  readonly writes: readonly string[];
  /**
   * Entries must not be copied to `stages.dead` when they ended a process, because of their content. Default false.
   */
  readonly neverQuarantines?: boolean;
  /**
   * The stage drops finished records from its topic, so without a known position it starts at the first kept record.
   * Default false: a lost position stops the partition until an operator sets one.
   */
  readonly startsAtFirst?: boolean;
  /** The form of the counts of the next commit (see `StageContext.count`). Default `deflated`. */
  countsForm?(): CountsForm;
  /** Called with the bytes of each commit, once it is durable. */
  committed?(bytes: Iterable<ScopeBytes>): void;
}

/**
 * A stage that processes one batch of one partition at a time, in order. A batch may be delivered again, also cut
 * differently, when the process died before its commit: effects outside the log must be idempotent by position or by
 * id.
 *
 * How a throw is handled, in every adapter:
 * - `Unavailable` or `Overloaded`: the partition pauses and the batch is repeated for as long as it takes.
 * - `Rewind`: the partition is read again from its offset.
 * - `Fenced`: the partition starts again from the committed position.
 * - Anything else: the batch is split until the failing entry is alone; after three throws it goes to `stages.dead`.
 */
export interface BatchStage extends StageBase {
  readonly kind: 'batch';
  /** Bound on the entries of a batch. Default 1,000. */
  readonly maxEntries?: number;
  /**
   * `harmless`: repeating a batch after a crash changes nothing, so an engine may delay storing a position without
   * output records by about half a second. `visible`: users would see the repetition; the position is stored before
   * the next batch. Default `harmless`.
   */
  readonly repeats?: 'harmless' | 'visible';
  process(batch: Batch, context: StageContext): Promise<readonly OutputRecord[]>;
}

/**
 * A stage that gets entries in order, without waiting for earlier ones, within a window of bytes per partition; they
 * may finish out of order. The adapter commits the finished prefix with its output records, in the order of the
 * entries. A finished entry behind an unfinished one counts with its output records and a small constant, so one slow
 * entry does not close the window. Throws are handled as in a batch stage, entry by entry.
 *
 * For each entry the stage calls `done` or `failed` exactly once, at once or later; a throw counts as `failed`.
 * Callbacks instead of promises, because thousands of entries wait in a window; for promises see `asyncHandler`.
 */
export interface FlowStage extends StageBase {
  readonly kind: 'flow';
  /** Bound on bytes of unfinished values and uncommitted output records per partition. */
  readonly windowBytes: number;
  /**
   * The least pause between two commits with output records of a partition, ms, where these may wait: the entries in between
   * share a commit and the record of their counts. Default 0.
   */
  readonly commitPauseMs?: number;
  handle(entry: LogEntry, context: FlowContext): undefined;
  /**
   * Backpressure, checked before each entry: false where more entries would only wait in memory. Checked again at
   * each change, and soon after. Absent: always true.
   */
  canAccept?(topic: string, partition: number): boolean;
}

export type Stage = BatchStage | FlowStage;

export function asyncHandler(
  work: (entry: LogEntry, context: FlowContext) => Promise<readonly OutputRecord[]>,
): FlowStage['handle'] {
  return (entry, context) => {
    work(entry, context).then(context.done.bind(context), context.failed.bind(context));
  };
}

/**
 * For tests and callers that run a flow stage without a log: the output records of one entry. Rejects with the
 * stage's failure.
 */
export function runFlowStage(
  stage: FlowStage,
  entry: LogEntry,
  context: StageContext,
): Promise<readonly OutputRecord[]> {
  return new Promise((done, failed) => {
    stage.handle(entry, { ...context, bytes: Buffer.byteLength(entry.value), done, failed });
  });
}
