import {
  type Backoff,
  backoffMs,
  Fenced,
  type Logger,
  type Metrics,
  messageOf,
  type OutputRecord,
  type Position,
  TributaryError,
} from '@tributary/core';
import { type Cursor, compareCursors } from './cursor.ts';
import { PartitionLost } from './failure.ts';
import { pause } from './waiting.ts';

/** How an engine wants to be left alone between commits. */
export interface CommitRest {
  /** ms, after a commit that took so long. */
  after(tookMs: number): number;
  /**
   * How often a position is stored at most, ms, that nothing is emitted with: nobody waits for it, and what a process
   * did behind the stored one is done again, idempotently, by who takes over after a crash.
   */
  readonly positionMs: number;
}

export interface CommitterOptions {
  readonly stage: string;
  readonly topic: string;
  readonly partition: number;
  readonly committed: Cursor;
  /**
   * Makes emissions and the position behind them durable together, if the stored position is `from` and this owner is
   * the newest. `Unavailable`: it may have happened, the same call again is safe. `Fenced`: someone newer owns it.
   */
  readonly commit: (from: Cursor, to: Cursor, emissions: readonly OutputRecord[]) => Promise<void>;
  readonly rest?: CommitRest | undefined;
  readonly backoff: Backoff;
  readonly metrics: Metrics;
  readonly logger: Logger;
}

/** Moves one partition's position. One commit at a time. */
export class Committer {
  readonly #options: CommitterOptions;
  #committed: Cursor;
  /** Behind the committed one, with nothing emitted in between. */
  #reached: Cursor | undefined;
  /** By `performance.now()`. */
  #restedAt = 0;
  #positionRestedAt = 0;
  #lastRestMs = 0;

  constructor(options: CommitterOptions) {
    this.#options = options;
    this.#committed = options.committed;
  }

  get committed(): Cursor {
    return this.#committed;
  }

  /** Behind which everything was done, stored or not. */
  get reached(): Cursor {
    return this.#reached ?? this.#committed;
  }

  /** How long the engine is better left alone, ms: what comes meanwhile shares the next commit. */
  restMs(): number {
    return Math.max(0, this.#restedAt - performance.now());
  }

  /** The same for a position that nothing is emitted with. */
  positionRestMs(): number {
    return Math.max(0, this.#positionRestedAt - performance.now());
  }

  /** True while a position was reached that is not stored yet. */
  get isBehind(): boolean {
    return this.#reached !== undefined;
  }

  /** True for an entry read again after a rewind, whose emissions are in the log already. */
  isReplay(position: Position): boolean {
    return compareCursors(position, this.#committed) < 0;
  }

  /** Notes a position that nothing is emitted with: it is stored now, with the next commit, or by `settle`. */
  async reach(to: Cursor, signal: AbortSignal): Promise<void> {
    if (compareCursors(to, this.#committed) <= 0) return;
    this.#reached = to;
    if (this.positionRestMs() === 0) await this.settle(signal);
    else this.#restedAt = performance.now() + this.#lastRestMs;
  }

  /** Stores what was reached. Rejects as `commit`. */
  async settle(signal: AbortSignal): Promise<void> {
    if (this.#reached !== undefined) await this.commit(this.#reached, [], signal);
  }

  /** Whoever begins anew at the committed position has reached nothing. */
  forget(): void {
    this.#reached = undefined;
  }

  /**
   * Commits, repeating the very same commit for as long as the engine does not answer. A replay (`to` is not behind
   * the committed position) commits nothing: its emissions were committed before.
   * Rejects with `PartitionLost`, and with the signal's reason once that fired.
   */
  async commit(to: Cursor, emissions: readonly OutputRecord[], signal: AbortSignal): Promise<void> {
    if (compareCursors(to, this.#committed) <= 0) return;
    const startedAt = performance.now();
    for (let repetition = 0; ; repetition++) {
      signal.throwIfAborted();
      try {
        await this.#options.commit(this.#committed, to, emissions);
        this.#committed = to;
        this.#reached = undefined;
        this.#noteTaken(performance.now() - startedAt);
        return;
      } catch (thrown) {
        await this.#judge(thrown, repetition, signal);
      }
    }
  }

  #noteTaken(tookMs: number): void {
    const { metrics, stage, rest } = this.#options;
    metrics.observe('tributary_stage_commit_duration_seconds', tookMs / 1_000, { stage });
    if (rest === undefined) return;
    this.#lastRestMs = rest.after(tookMs);
    const now = performance.now();
    this.#restedAt = now + this.#lastRestMs;
    this.#positionRestedAt = now + rest.positionMs;
  }

  async #judge(thrown: unknown, repetition: number, signal: AbortSignal): Promise<void> {
    const { stage, topic, partition, logger, backoff } = this.#options;
    if (thrown instanceof Fenced) {
      throw new PartitionLost(`${topic}/${partition} of stage ${stage} has a newer owner`, { cause: thrown });
    }
    if (!(thrown instanceof TributaryError && thrown.retryable)) throw thrown;
    logger.warn({ stage, topic, partition, repetition, error: messageOf(thrown) }, 'commit will be repeated');
    await pause(backoffMs(repetition, backoff), signal);
  }
}
