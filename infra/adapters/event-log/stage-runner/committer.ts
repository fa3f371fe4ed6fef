import {
  type Backoff,
  BytesTally,
  backoffMs,
  countRecords,
  Fenced,
  type Logger,
  type Metrics,
  messageOf,
  type OutputRecord,
  type Position,
  type Stage,
  type Tally,
  TributaryError,
} from '@tributary/core';
import { type Cursor, compareCursors } from './cursor.ts';
import { pause } from './waiting.ts';

/** There is a newer owner of the partition: this one can never commit again. */
export class PartitionLost extends Error {
  override readonly name = 'PartitionLost';
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

export interface CommitterOptions {
  readonly stage: string;
  readonly topic: string;
  readonly partition: number;
  readonly committed: Cursor;
  /**
   * Makes output records and the position behind them durable together, if the stored position is `from` and this owner is
   * the newest. `Unavailable`: the outcome is unknown, and the same call again is safe. `Fenced`: there is a newer owner.
   */
  readonly commit: (from: Cursor, to: Cursor, outputRecords: readonly OutputRecord[]) => Promise<void>;
  readonly throttle?: CommitThrottle | undefined;
  /** See `FlowStage.commitPauseMs`. */
  readonly leastPauseMs?: number | undefined;
  /** See `Stage.isCounting`. */
  readonly isCounting?: Stage['isCounting'];
  /** See `Stage.committed`. */
  readonly onCommitted?: Stage['committed'];
  readonly backoff: Backoff;
  readonly metrics: Metrics;
  readonly logger: Logger;
}

/**
 * Commits one partition, one commit at a time. The counts of its entries and of the bytes that it writes for each workspace
 * are appended by the same commits.
 */
export class Committer {
  readonly #options: CommitterOptions;
  #committed: Cursor;
  /** Behind the committed position, without output records in between. */
  #reached: Cursor | undefined;
  /** Counts of the entries between the two. */
  #reachedTallies: Tally[] = [];
  /** Until when commits pause, by `performance.now()`. */
  #pausedUntil = 0;
  #positionPausedUntil = 0;
  #lastPauseMs = 0;

  constructor(options: CommitterOptions) {
    this.#options = options;
    this.#committed = options.committed;
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

  /** Moves to a position without output records, which is stored now, with the next commit, or by `settle`. */
  async reach(to: Cursor, signal: AbortSignal, tally?: Tally): Promise<void> {
    if (compareCursors(to, this.#committed) <= 0) return;
    this.#reached = to;
    if (tally !== undefined) this.#reachedTallies.push(tally);
    if (this.positionPauseMs() === 0) await this.settle(signal);
    else this.#pausedUntil = performance.now() + this.#lastPauseMs;
  }

  /** Stores the position reached. Rejects as `commit`. */
  async settle(signal: AbortSignal): Promise<void> {
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
        await this.#options.commit(this.#committed, to, records);
        this.#committed = to;
        this.forget();
        this.#noteCommit(performance.now() - startedAt);
        if (!bytes.isEmpty) this.#options.onCommitted?.(bytes);
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
    const counting = this.#options.isCounting?.() ?? true;
    if (counting === false) return outputRecords;
    const tallies = tally === undefined ? this.#reachedTallies : [...this.#reachedTallies, tally];
    const counts = countRecords(tallies, bytes, counting);
    return counts.length === 0 ? outputRecords : [...outputRecords, ...counts];
  }

  #noteCommit(tookMs: number): void {
    const { metrics, stage, throttle, leastPauseMs = 0 } = this.#options;
    metrics.observe('tributary_stage_commit_duration_seconds', tookMs / 1_000, { stage });
    if (throttle === undefined) return;
    this.#lastPauseMs = Math.max(leastPauseMs, throttle.pauseAfter(tookMs));
    const now = performance.now();
    this.#pausedUntil = now + this.#lastPauseMs;
    this.#positionPausedUntil = now + throttle.positionMs;
  }

  async #pauseOrThrow(thrown: unknown, repetition: number, signal: AbortSignal): Promise<void> {
    const { stage, topic, partition, logger, backoff } = this.#options;
    if (thrown instanceof Fenced) {
      throw new PartitionLost(`${topic}/${partition} of stage ${stage} has a newer owner`, { cause: thrown });
    }
    if (!(thrown instanceof TributaryError && thrown.retryable)) throw thrown;
    logger.warn({ stage, topic, partition, repetition, error: messageOf(thrown) }, 'commit will be repeated');
    await pause(backoffMs(repetition, backoff), signal);
  }
}
