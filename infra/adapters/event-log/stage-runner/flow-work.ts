import {
  type Emission,
  type FlowStage,
  type LogEntry,
  messageOf,
  POISON_ATTEMPTS,
  type StageContext,
} from '@tributary/core';
import { backoffMs } from './backoff.ts';
import type { Taken } from './cursor.ts';
import { checkEmissions } from './emissions.ts';
import { failureOf } from './failure.ts';
import { FlowWindow, type Slot } from './flow-window.ts';
import { pause } from './waiting.ts';
import { giveUp, type Work } from './work.ts';

/** With so much of the window finished, a commit does not wait. */
const NO_REST_SHARE = 1 / 16;

/**
 * Hands the entries of one partition to a flow stage inside its window, and commits the finished prefix while others
 * go on. It ends for good at the first `Rewind` or `Fenced` of the stage and at a failed commit: that error is the
 * reason of `ended`, and what `tryAdmit` and `drained` throw from then on.
 */
export class FlowWork {
  readonly #stage: FlowStage;
  readonly #work: Work;
  readonly #window: FlowWindow;
  readonly #ended = new AbortController();
  #running = 0;
  /** Entries that wait for an engine to answer; while there are any nothing new is admitted. */
  #waitingForEngine = 0;
  #committing = false;
  #nextChange: PromiseWithResolvers<void> | undefined;

  /** `work.stopping` wakes who waits for `changed()` and is told to the stage; what was admitted goes on. */
  constructor(stage: FlowStage, work: Work, maxUncommitted: number) {
    this.#stage = stage;
    this.#work = work;
    this.#window = new FlowWindow({ bytes: stage.windowBytes, entries: maxUncommitted });
    const until = { once: true, signal: this.#ended.signal };
    work.signal.addEventListener('abort', () => this.#end(work.signal.reason), until);
    work.stopping.addEventListener('abort', () => this.#changed(), until);
    if (work.signal.aborted) this.#end(work.signal.reason);
  }

  /** Fires when nothing can be admitted or committed any more. */
  get ended(): AbortSignal {
    return this.#ended.signal;
  }

  /** Hands the entry over if there is room; else `changed()` says when to try again. */
  tryAdmit(taken: Taken): boolean {
    this.ended.throwIfAborted();
    const bytes = Buffer.byteLength(taken.entry.value);
    if (this.#waitingForEngine > 0 || !this.#window.hasRoom(bytes)) return false;
    void this.#handle(taken, this.#window.admit(taken.after, bytes));
    return true;
  }

  /** Resolves at the next change of anything. */
  changed(): Promise<void> {
    this.#nextChange ??= Promise.withResolvers();
    return this.#nextChange.promise;
  }

  /** Resolves when all that was admitted is committed. */
  async drained(): Promise<void> {
    for (;;) {
      this.ended.throwIfAborted();
      if (this.#window.uncommitted === 0) return;
      await this.changed();
    }
  }

  /** Resolves when the stage has nothing of this partition in hand any more, or the signal given fires. */
  async settled(signal: AbortSignal): Promise<void> {
    const notify = () => this.#changed();
    signal.addEventListener('abort', notify, { once: true });
    while ((this.#running > 0 || this.#committing) && !signal.aborted) await this.changed();
    signal.removeEventListener('abort', notify);
  }

  async #handle(taken: Taken, slot: Slot): Promise<void> {
    this.#running++;
    try {
      const emissions = await this.#emissionsOf(taken.entry, this.#contextOf(slot));
      if (this.ended.aborted) return;
      const replay = this.#work.committer.isReplay(taken.entry.position);
      this.#window.finish(slot, replay ? [] : emissions);
      void this.#commitFinished();
    } catch (thrown) {
      this.#end(thrown);
    } finally {
      this.#running--;
      this.#changed();
    }
  }

  #contextOf(slot: Slot): StageContext {
    return {
      ...this.#work.context,
      stopping: this.#work.stopping,
      room: () => {
        this.ended.throwIfAborted();
        return this.#window.mayEmit(slot) ? undefined : this.changed();
      },
    };
  }

  async #emissionsOf(entry: LogEntry, context: StageContext): Promise<readonly Emission[]> {
    const { stage, writes, logger, backoff, signal } = this.#work;
    let throws = 0;
    for (;;) {
      try {
        const emissions = await this.#onceEnginesAnswer(entry, context);
        checkEmissions(emissions, writes);
        return emissions;
      } catch (thrown) {
        signal.throwIfAborted();
        if (failureOf(thrown) !== 'throw') throw thrown;
        throws++;
        if (throws >= POISON_ATTEMPTS) return giveUp(this.#work, entry, thrown);
        logger.warn({ stage, position: entry.position, throws, error: messageOf(thrown) }, 'stage threw');
        await pause(backoffMs(throws - 1, backoff), signal);
      }
    }
  }

  /** Hands the entry over until it meets no `Unavailable`; nothing new is admitted meanwhile. */
  async #onceEnginesAnswer(entry: LogEntry, context: StageContext): Promise<readonly Emission[]> {
    const { stage, logger, backoff, signal } = this.#work;
    let repetition = 0;
    try {
      for (;;) {
        signal.throwIfAborted();
        try {
          return await this.#stage.handle(entry, context);
        } catch (thrown) {
          if (failureOf(thrown) !== 'repeat') throw thrown;
          logger.warn({ stage, repetition, error: messageOf(thrown) }, 'an engine does not answer');
          if (repetition === 0) this.#waitingForEngine++;
          await pause(backoffMs(repetition++, backoff), signal);
        }
      }
    } finally {
      if (repetition > 0) this.#waitingForEngine--;
    }
  }

  async #commitFinished(): Promise<void> {
    if (this.#committing) return;
    this.#committing = true;
    try {
      while (!this.ended.aborted) {
        await this.#rest();
        const prefix = this.#window.takeFinished();
        if (!prefix) break;
        await this.#work.committer.commit(prefix.to, prefix.emissions, this.#work.signal);
        this.#window.release(prefix);
        this.#changed();
      }
    } catch (thrown) {
      this.#end(thrown);
    } finally {
      this.#committing = false;
      this.#changed();
    }
  }

  /** Until the engine is to be asked again; not when there is much to commit, nor when it is the last time. */
  async #rest(): Promise<void> {
    for (;;) {
      const { committer, stopping } = this.#work;
      const restMs = this.#window.holdsEmissions ? committer.restMs() : committer.positionRestMs();
      if (restMs === 0 || stopping.aborted || this.ended.aborted) return;
      if (this.#window.isFull(NO_REST_SHARE)) return;
      await this.#changedWithin(restMs);
    }
  }

  async #changedWithin(ms: number): Promise<void> {
    const over = setTimeout(() => this.#changed(), ms);
    await this.changed();
    clearTimeout(over);
  }

  #end(reason: unknown): void {
    this.#ended.abort(reason);
    this.#changed();
  }

  #changed(): void {
    const change = this.#nextChange;
    this.#nextChange = undefined;
    change?.resolve();
  }
}
