import type { LogEntry, NewEntry } from './event-log.ts';

/** An entry a stage puts into a topic; becomes visible together with the position behind its cause, or never. */
export interface OutputRecord extends NewEntry {
  readonly topic: string;
}

/** A topic a stage reads, with an optional delay. */
export interface Source {
  readonly topic: string;
  /**
   * When the entry may be handed over, epoch ms. The partition waits for its head, so a later due time may only
   * lengthen the wait of those behind it. Asked again each second while the head waits, and an earlier answer is
   * followed; an entry whose time has come by the answer is handed over. Absent: at once.
   */
  dueAt?(entry: LogEntry): number;
}

export interface Batch {
  readonly topic: string;
  readonly partition: number;
  /** In order, never empty. */
  readonly entries: readonly LogEntry[];
}

/** What the log tells a stage beside its input. */
export interface StageContext {
  /** Aborted when the partition is lost or the process leaves: stop waiting, results will be dropped. */
  readonly signal: AbortSignal;
  /** Fires when the stage takes no more and finishes what it has: nothing comes that could be held up. */
  readonly stopping?: AbortSignal;
  /**
   * For a flow stage that makes much of little, to ask before it makes more: undefined while the partition has room
   * for further emissions, and always for its oldest unfinished entry; else resolves at the next change. Throws once
   * the partition was left.
   */
  room?(): Promise<void> | undefined;
  /**
   * The end of the partition the input comes from, as the log knows it when asked and not before: so an offset that a
   * store gave out before the call and that lies beyond the answer is of a log that is gone. `Unavailable` when the
   * log does not answer. Absent where the log cannot tell.
   */
  end?(): Promise<number>;
  /**
   * For a batch stage that makes much of little: the batch ends behind its first so many entries, at least one, as what
   * they emit is enough for one commit; the others come again. Absent where all of the batch is to be done.
   */
  endBatch?(entries: number): void;
}

/** What a flow stage is handed with an entry: what the log tells of it, and where to say what became of it. */
export interface FlowContext extends StageContext {
  /** Of the entry's value: its UTF-8. */
  readonly bytes: number;
  /** The entry is done, and emits this. */
  done(emissions: readonly OutputRecord[]): void;
  /** It is not, for this reason. */
  failed(thrown: unknown): void;
}

interface StageBase {
  /** Also the consumer group's name. From the design's word list. */
  readonly name: string;
  readonly reads: readonly Source[];
  /** Topics it may emit to; an emission elsewhere is a programming error and counts as a throw. */
  readonly writes: readonly string[];
  /** Its entries hold what must not be copied: none that ended the process goes to `stages.dead`. Default false. */
  readonly neverQuarantines?: boolean;
  /**
   * The stage drops from its topic what it has done, so that without a known position it begins at the first record kept.
   * Default false: a lost position stops the partition until an operator sets one.
   */
  readonly startsAtFirst?: boolean;
}

/**
 * One batch of one partition at a time, in order. A batch may be handed over again (also cut differently) when the
 * process died before its commit, so effects outside the log must be idempotent by position or by id.
 *
 * How a throw is treated, on every adapter: `Unavailable` (or `Overloaded`) pauses the partition and repeats for as
 * long as it takes; `Rewind` re-reads from its offset; `Fenced` starts again from the committed position; anything
 * else splits the batch until the guilty entry stands alone, which after three throws goes to `stages.dead`.
 */
export interface BatchStage extends StageBase {
  readonly kind: 'batch';
  /** Entries per batch at most. Default 1,000. */
  readonly maxEntries?: number;
  /**
   * `harmless`: a batch that is done again after a crash changes nothing, so an engine may put off storing a position
   * that nothing is emitted with, by about half a second. `visible`: people would see it; the position is stored before
   * the next batch is handed over. Default `harmless`.
   */
  readonly repeats?: 'harmless' | 'visible';
  process(batch: Batch, context: StageContext): Promise<readonly OutputRecord[]>;
}

/**
 * Entries are handed over in order, each before the earlier ones are done, inside a window per partition that is
 * bounded in bytes; they may finish out of order. The adapter commits the finished prefix with its emissions, in the
 * order of the entries. A finished entry behind an unfinished one weighs its emissions and a small constant, so one
 * slow head does not close the window. Throws are treated as in a batch stage, entry by entry.
 *
 * For each entry that it is handed it calls `done` or `failed`, once, at once or later; a throw is `failed`. Thousands
 * wait in a window, so none costs a promise that needs none. Where promises do, see `promised`.
 */
export interface FlowStage extends StageBase {
  readonly kind: 'flow';
  /** Bytes of unfinished values and uncommitted emissions per partition. */
  readonly windowBytes: number;
  handle(entry: LogEntry, context: FlowContext): undefined;
  /**
   * Whether it wants to be handed more of a partition, asked before each entry where there is room; absent: always.
   * False where more would only wait in memory behind what it has. Asked again at each change, and soon after.
   */
  canAccept?(topic: string, partition: number): boolean;
}

export type Stage = BatchStage | FlowStage;

/** What a flow stage does, of a function that promises what an entry emits. */
export function promised(
  work: (entry: LogEntry, context: StageContext) => Promise<readonly OutputRecord[]>,
): FlowStage['handle'] {
  return (entry, context) => {
    work(entry, context).then(
      (emissions) => context.done(emissions),
      (thrown) => context.failed(thrown),
    );
  };
}

/** What an entry emits that is handed to a flow stage by who is no log. Rejects with what the stage failed with. */
export function handled(
  stage: FlowStage,
  entry: LogEntry,
  context: StageContext,
): Promise<readonly OutputRecord[]> {
  return new Promise((done, failed) => {
    stage.handle(entry, { ...context, bytes: Buffer.byteLength(entry.value), done, failed });
  });
}
