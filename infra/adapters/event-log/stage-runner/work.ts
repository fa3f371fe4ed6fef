import {
  type Backoff,
  BytesTally,
  backoffMs,
  type Clock,
  countRecords,
  deadLetterOf,
  deadLetterWithoutEntry,
  Fenced,
  type FlowStage,
  iso,
  type LogEntry,
  type Logger,
  MAX_VALUE_BYTES,
  type Metrics,
  messageOf,
  type OutputRecord,
  type Position,
  type Stage,
  type StageContext,
  type Tally,
  TOPIC,
  TributaryError,
  Unavailable,
} from '@tributary/core';

/** One partition that this process owns for a stage, as an engine implements it. */
export interface OwnedPartition {
  readonly topic: string;
  readonly partition: number;
  readonly committed: Cursor;
  /** Entries from the cursor on, in order. Waits until there are some; empty once the signal fired or `waitMs` passed. */
  fetch(from: Cursor, limits: FetchLimits, signal: AbortSignal): Promise<readonly Taken[]>;
  /** See `StageContext.end`. */
  readonly end: () => Promise<number>;
  /**
   * Makes output records and the position behind them durable together, if the stored position is `from` and this owner is
   * the newest. `Unavailable`: the outcome is unknown, and the same call again is safe. `Fenced`: there is a newer owner.
   */
  commit(from: Cursor, to: Cursor, outputRecords: readonly OutputRecord[]): Promise<void>;
  /** Absent: commits follow each other without a pause. */
  readonly throttle?: CommitThrottle;
  /** Absent: no entry waits for other partitions. */
  readonly barrier?: EntryBarrier;
}

/** Bytes read from one partition at a time. */
export const FETCH_BYTES = 256 * 1024;

export interface FetchLimits {
  /** Reading stops at the record that reaches this size; so at least one record is returned when there is one. */
  readonly maxBytes: number;
  /** Reading stops at the record that reaches this number: the entries of one record are not divided. */
  readonly maxEntries: number;
  /** For how long to wait for more entries after the first, ms. Default 0. */
  readonly gatherMs?: number;
  /** For how long to wait for the first entry, ms. Default: until there is one. */
  readonly waitMs?: number;
}

/** Holds entries back until the stage has reached positions in other partitions of their topic. */
export interface EntryBarrier {
  /** How many of the entries, from the first on, may be dispatched as far as it is known. */
  countOpen(waiting: readonly Taken[]): number;
  /** Finds out whether the entry may be dispatched. */
  tryOpen(entry: Taken): Promise<boolean>;
}

/** The pauses of an engine between the commits of a partition. */
export interface CommitThrottle {
  /** The pause after a commit that took so long, ms. */
  pauseAfter(tookMs: number): number;
  /**
   * How often a position without output records is stored, at most, ms: no reader waits for it, and the work behind the
   * stored one is repeated, idempotently, by the next owner after a crash.
   */
  readonly positionMs: number;
}

/** The space that the disk has for stages. Called for every entry. */
export interface StageSpace {
  /** Whether no more entries are to be taken; those in flight finish. */
  isFull(): boolean;
  /** Whether output records are not to be written either: what is left is kept for removals. */
  isSpent(): boolean;
}

/** Shared by all work of a log. */
export interface Runner {
  readonly space: StageSpace;
  readonly backoff: Backoff;
  readonly maxUncommitted: number;
  readonly stopGraceMs: number;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly logger: Logger;
}

/** The entries of a partition that are in flight, for the case that one of them ends the process; see `InFlightTable`. */
export interface InFlight {
  /** Set before a suspect is dispatched alone. */
  alone: boolean;
  /** Adds an entry that is about to be dispatched, behind those in flight. */
  take(entry: LogEntry): void;
  /** The entries before the cursor are done. */
  passed(to: Cursor): void;
  /** All entries are done. */
  clear(): void;
}

/** The context of the work on one partition, whatever the engine. */
export interface Work {
  readonly runner: Runner;
  readonly stage: Stage;
  readonly committer: Committer;
  readonly inFlight: InFlight;
  /** The stage's `StageContext.signal`: once it fired no entry is dispatched or committed. */
  readonly signal: AbortSignal;
  /** Fires when no more entries are to be dispatched. */
  readonly stopping: AbortSignal;
  readonly context: StageContext;
}

/** There is a newer owner of the partition: this one can never commit again. */
export class PartitionLost extends Error {
  override readonly name = 'PartitionLost';
}

type CommittedStage = Pick<Stage, 'name' | 'countsForm' | 'committed'> & Pick<FlowStage, 'commitPauseMs'>;
type CommitRunner = Pick<Runner, 'space' | 'backoff' | 'metrics' | 'logger'>;

/**
 * Commits one partition, one commit at a time. The counts of its entries and of the bytes that it writes for each workspace
 * are appended by the same commits.
 */
export class Committer {
  readonly #stage: CommittedStage;
  readonly #owned: Omit<OwnedPartition, 'fetch' | 'end'>;
  readonly #runner: CommitRunner;
  #committed: Cursor;
  /** Behind the committed position, without output records in between. */
  #reached: Cursor | undefined;
  /** Counts of the entries between the two. */
  #reachedTallies: Tally[] = [];
  /** Until when commits pause, by `performance.now()`. */
  #pausedUntil = 0;
  #positionPausedUntil = 0;
  #lastPauseMs = 0;

  constructor(stage: CommittedStage, owned: Omit<OwnedPartition, 'fetch' | 'end'>, runner: CommitRunner) {
    this.#stage = stage;
    this.#owned = owned;
    this.#runner = runner;
    this.#committed = owned.committed;
  }

  get committed(): Cursor {
    return this.#committed;
  }

  /** All entries before it are done, whether it is stored or not. */
  get reached(): Cursor {
    return this.#reached ?? this.#committed;
  }

  /** How long until the next commit, ms; entries that finish meanwhile share it. */
  pauseMs(): number {
    return Math.max(0, this.#pausedUntil - performance.now());
  }

  /** The same for a position without output records. */
  positionPauseMs(): number {
    return Math.max(0, this.#positionPausedUntil - performance.now());
  }

  /** Whether a position was reached that is not stored. */
  get isBehind(): boolean {
    return this.#reached !== undefined;
  }

  /** Whether an entry was read again after a rewind: its output records are in the log already. */
  isReplay(position: Position): boolean {
    return compareCursors(position, this.#committed) < 0;
  }

  /** Moves to a position without output records, which is stored now, with the next commit, or by `commitReached`. */
  async reach(to: Cursor, signal: AbortSignal, tally?: Tally): Promise<void> {
    if (compareCursors(to, this.#committed) <= 0) return;
    this.#reached = to;
    if (tally !== undefined) this.#reachedTallies.push(tally);
    if (this.positionPauseMs() === 0) await this.commitReached(signal);
    else this.#pausedUntil = performance.now() + this.#lastPauseMs;
  }

  /** Commits the position reached. Rejects as `commit`. */
  async commitReached(signal: AbortSignal): Promise<void> {
    if (this.#reached !== undefined) await this.commit(this.#reached, [], signal);
  }

  /** The work begins again at the committed position. */
  forget(): void {
    this.#reached = undefined;
    this.#reachedTallies = [];
  }

  /**
   * Commits, repeating the same commit while the engine is unavailable. A replay (`to` is not behind the committed
   * position) is ignored, as its output records were committed before.
   * Rejects with `PartitionLost`, and with the signal's reason once that fired.
   */
  async commit(
    to: Cursor,
    outputRecords: readonly OutputRecord[],
    signal: AbortSignal,
    tally?: Tally,
  ): Promise<void> {
    if (compareCursors(to, this.#committed) <= 0) return;
    const bytes = new BytesTally();
    const records = this.#withCounts(outputRecords, tally, bytes);
    const startedAt = performance.now();
    for (let repetition = 0; ; repetition++) {
      signal.throwIfAborted();
      try {
        if (records.length > 0 && this.#runner.space.isSpent())
          throw new Unavailable('the disk is full: what is left of it is kept for removals');
        await this.#owned.commit(this.#committed, to, records);
        this.#committed = to;
        this.forget();
        this.#noteCommit(performance.now() - startedAt);
        if (!bytes.isEmpty) this.#stage.committed?.(bytes);
        return;
      } catch (thrown) {
        await this.#pauseOrThrow(thrown, repetition, signal);
      }
    }
  }

  /** The output records, and the counts of all entries since the last commit. Their bytes are added to `bytes`. */
  #withCounts(
    outputRecords: readonly OutputRecord[],
    tally: Tally | undefined,
    bytes: BytesTally,
  ): readonly OutputRecord[] {
    bytes.writtenRecords(outputRecords);
    const tallies = tally === undefined ? this.#reachedTallies : [...this.#reachedTallies, tally];
    const counts = countRecords(tallies, bytes, this.#stage.countsForm?.());
    return counts.length === 0 ? outputRecords : [...outputRecords, ...counts];
  }

  #noteCommit(tookMs: number): void {
    const { throttle } = this.#owned;
    this.#runner.metrics.observe('tributary_stage_commit_duration_seconds', tookMs / 1_000, {
      stage: this.#stage.name,
    });
    if (throttle === undefined) return;
    this.#lastPauseMs = Math.max(this.#stage.commitPauseMs ?? 0, throttle.pauseAfter(tookMs));
    const now = performance.now();
    this.#pausedUntil = now + this.#lastPauseMs;
    this.#positionPausedUntil = now + throttle.positionMs;
  }

  async #pauseOrThrow(thrown: unknown, repetition: number, signal: AbortSignal): Promise<void> {
    const { topic, partition } = this.#owned;
    const { name: stage } = this.#stage;
    const { logger, backoff } = this.#runner;
    if (thrown instanceof Fenced) {
      throw new PartitionLost(`${topic}/${partition} of stage ${stage} has a newer owner`, { cause: thrown });
    }
    if (!(thrown instanceof TributaryError && thrown.retryable)) throw thrown;
    logger.warn({ stage, topic, partition, repetition, error: messageOf(thrown) }, 'commit will be repeated');
    await pause(backoffMs(repetition, backoff), signal);
  }
}

/** Dead-letters an entry: the output records in place of the stage's own. */
export function deadLetter(work: Work, entry: LogEntry, thrown: unknown): readonly OutputRecord[] {
  const error = noteDeadLetter(work, entry.position, thrown);
  return [deadLetterOf(work.stage.name, entry, error, iso(work.runner.clock()))];
}

/** Dead-letters an entry whose output records are too large, by its position alone. */
export function deadLetterTooLarge(
  work: Work,
  position: Position,
  key: string,
  thrown: unknown,
): OutputRecord {
  const error = noteDeadLetter(work, position, thrown);
  return deadLetterWithoutEntry(work.stage.name, { position, key }, error, iso(work.runner.clock()));
}

function noteDeadLetter({ stage, runner }: Work, position: Position, thrown: unknown): string {
  runner.metrics.count('tributary_stage_dead_letters_total', { stage: stage.name });
  const error = messageOf(thrown);
  runner.logger.error({ stage: stage.name, position, error }, 'entry dead-lettered');
  return error;
}

/** Dead-letters an entry that crashed the process while no other was in flight, without dispatching it again. */
export function quarantine(work: Work, entry: LogEntry, reason: string): readonly OutputRecord[] {
  work.runner.metrics.count('tributary_stage_quarantined_total', { stage: work.stage.name });
  return deadLetter(work, entry, new Error(`not dispatched: it crashed the process twice (${reason})`));
}

/** The consequence of an error of a stage. */
type Failure =
  /** An engine is unavailable: pause the partition and repeat the same, for as long as it takes. */
  | 'repeat'
  /** Read again from the offset in the error. */
  | 'rewind'
  /** Read again from the committed position. */
  | 'restart'
  /** The stage throws for an entry: find it, and dead-letter it after its attempts. */
  | 'throw';

/** `Overloaded` is treated as `Unavailable`: no entry is dead-lettered because an engine has no room. */
export function failureOf(thrown: unknown): Failure {
  if (!(thrown instanceof TributaryError)) return 'throw';
  switch (thrown.code) {
    case 'unavailable':
    case 'overloaded':
      return 'repeat';
    case 'rewind':
      return 'rewind';
    case 'fenced':
      return 'restart';
    default:
      return 'throw';
  }
}

/** Checks the output records of a stage; an error counts as a throw of the stage. */
export function checkOutputRecords(
  outputRecords: readonly OutputRecord[],
  { writes }: Pick<Stage, 'writes'>,
): void {
  for (const { topic, key, value } of outputRecords) {
    if (!writes.includes(topic))
      throw new Error(`output record to "${topic}", which the stage does not declare`);
    if (typeof key !== 'string') throw new Error(`output record without a key to "${topic}"`);
    // A UTF-16 unit has three bytes of UTF-8 at most.
    const size = value.length * 3 <= MAX_VALUE_BYTES ? 0 : Buffer.byteLength(value);
    // A dead letter is JSON within JSON, and is dead-lettered again where its redrive fails.
    if (size > MAX_VALUE_BYTES && topic !== TOPIC.poison)
      throw new Error(`output record of ${size} bytes to "${topic}" is too large`);
  }
}

export function outputBytes(outputRecords: readonly OutputRecord[]): number {
  let bytes = 0;
  for (const { key, value, headers } of outputRecords) {
    bytes += Buffer.byteLength(value) + key.length;
    // Headers of hundreds of rules, or of violations, are larger than the event.
    for (const name in headers) bytes += headers[name]?.length ?? 0;
  }
  return bytes;
}

/** The next entry of a partition: an offset, and the index within that record. */
export interface Cursor {
  readonly offset: number;
  readonly index: number;
}

/** An entry as an engine reads it. */
export interface Taken {
  readonly entry: LogEntry;
  /** The position to commit once this entry and all before it are done. */
  readonly after: Cursor;
  /** Positions in other partitions that the stage has to reach first, as `OwnedPartition.barrier` reads them. */
  readonly bounds?: string;
}

/** Negative when `a` comes before `b`, 0 when they are the same. */
export function compareCursors(a: Cursor, b: Cursor): number {
  return a.offset - b.offset || a.index - b.index;
}

export function earlier(a: Cursor, b: Cursor): Cursor {
  return compareCursors(a, b) <= 0 ? a : b;
}

/** The longest timer of Node; callers that wait for longer check the clock in between. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** Resolves after about `ms` or, without an error, when the signal fires. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, Math.min(Math.max(ms, 0), MAX_TIMER_MS));
    signal.addEventListener('abort', done);
  });
}

/** The outcome of `work`; rejects with the signal's reason when that fires first, while `work` continues. */
export function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const aborted = () => reject(signal.reason);
    if (signal.aborted) aborted();
    else signal.addEventListener('abort', aborted);
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', aborted));
  });
}
