import {
  backoffMs,
  type FlowStage,
  messageOf,
  type OutputRecord,
  POISON_ATTEMPTS,
  TooLarge,
} from '@tributary/core';
import type { Cursor, Taken } from './cursor.ts';
import { checkEmissions } from './emissions.ts';
import { failureOf } from './failure.ts';
import { type FinishedPrefix, FlowWindow, type Slot } from './flow-window.ts';
import { type Handler, Handling } from './handling.ts';
import { pause } from './waiting.ts';
import { giveUp, giveUpTooLarge, quarantine, type Work } from './work.ts';

/** With so much of the window finished, a commit does not wait. */
const NO_REST_SHARE = 1 / 16;

/** How soon a stage is asked again that wants no more, ms. */
const LOOK_AGAIN_MS = 25;

const NONE: readonly OutputRecord[] = [];

/** A finished entry and what it emitted. */
interface Finished {
  readonly slot: Slot;
  readonly emissions: readonly OutputRecord[];
}

/** The wait before a commit, and what it was begun for. */
interface Resting {
  readonly withEmissions: boolean;
  over(): void;
}

/**
 * Hands the entries of one partition to a flow stage inside its window, and commits the finished prefix while others
 * go on. It ends for good at the first `Rewind` or `Fenced` of the stage and at a failed commit: that error is the
 * reason of `ended`, and what `tryAdmit` and `drained` throw from then on.
 */
export class FlowWork implements Handler {
  readonly #stage: FlowStage;
  readonly #work: Work;
  readonly #window: FlowWindow;
  readonly #ended = new AbortController();
  #running = 0;
  /** Entries that wait for an engine to answer; while there are any nothing new is admitted. */
  #waitingForEngine = 0;
  #committing = false;
  #nextChange: PromiseWithResolvers<void> | undefined;
  #resting: Resting | undefined;
  #looking: NodeJS.Timeout | undefined;
  #hurried = false;

  /** `work.stopping` wakes who waits for `changed()` and is told to the stage; what was admitted goes on. */
  constructor(stage: FlowStage, work: Work, maxUncommitted: number) {
    this.#stage = stage;
    this.#work = work;
    this.#window = new FlowWindow({ bytes: stage.windowBytes, entries: maxUncommitted });
    const until = { once: true, signal: this.#ended.signal };
    work.signal.addEventListener('abort', () => this.#end(work.signal.reason), until);
    work.stopping.addEventListener('abort', () => this.#wake(), until);
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
    const { topic, partition } = taken.entry.position;
    if (this.#stage.canAccept?.(topic, partition) === false) {
      this.#lookAgain();
      return false;
    }
    this.#running++;
    this.#work.inHand.take(taken.entry);
    const slot = this.#window.admit(taken.after, bytes, taken.entry.position);
    this.#hand(new Handling(this, taken.entry, slot));
    return true;
  }

  /** Commits an entry that is given up unseen, behind all that was admitted. */
  quarantine(taken: Taken, reason: string): void {
    this.ended.throwIfAborted();
    this.#running++;
    const slot = this.#window.admit(taken.after, 0, taken.entry.position);
    this.#finish(new Handling(this, taken.entry, slot), quarantine(this.#work, taken.entry, reason));
  }

  /** Whether commits follow each other without a rest, for callers that wait for each entry. */
  set hurried(hurried: boolean) {
    this.#hurried = hurried;
    if (hurried) this.#resting?.over();
  }

  /** What a stage wants may change by the time alone. */
  #lookAgain(): void {
    this.#looking ??= setTimeout(() => {
      this.#looking = undefined;
      this.#changed();
    }, LOOK_AGAIN_MS);
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

  #hand(handling: Handling): void {
    handling.open();
    try {
      this.#stage.handle(handling.entry, handling);
    } catch (thrown) {
      handling.failed(thrown);
    }
  }

  /** Part of `Handler`. */
  emitted(handling: Handling, emissions: readonly OutputRecord[]): void {
    this.#engineAnswered(handling);
    try {
      checkEmissions(emissions, this.#work.writes);
    } catch (thrown) {
      this.threw(handling, thrown);
      return;
    }
    this.#finish(handling, emissions);
  }

  /**
   * Part of `Handler`. The entry is handed over again until it meets no `Unavailable`, while which nothing new is
   * admitted, and until it is poison.
   */
  threw(handling: Handling, thrown: unknown): void {
    const { stage, logger, backoff, signal } = this.#work;
    const failure = failureOf(thrown);
    if (failure === 'repeat' && !signal.aborted) {
      const { repetition } = handling;
      logger.warn({ stage, repetition, error: messageOf(thrown) }, 'an engine does not answer');
      if (repetition === 0) this.#waitingForEngine++;
      handling.repetition++;
      void this.#handAgain(handling, backoffMs(repetition, backoff));
      return;
    }
    this.#engineAnswered(handling);
    if (signal.aborted) this.#drop(signal.reason);
    else if (failure !== 'throw') this.#drop(thrown);
    else {
      const { position } = handling.entry;
      const throws = ++handling.throws;
      if (throws >= POISON_ATTEMPTS) {
        this.#finish(handling, giveUp(this.#work, handling.entry, thrown));
        return;
      }
      logger.warn({ stage, position, throws, error: messageOf(thrown) }, 'stage threw');
      void this.#handAgain(handling, backoffMs(throws - 1, backoff));
    }
  }

  /** Part of `Handler`. */
  room(handling: Handling): Promise<void> | undefined {
    this.ended.throwIfAborted();
    return this.#window.mayEmit(handling.slot) ? undefined : this.changed();
  }

  /** Part of `Handler`. */
  get signal(): AbortSignal {
    return this.#work.signal;
  }

  /** Part of `Handler`. */
  get stopping(): AbortSignal {
    return this.#work.stopping;
  }

  async #handAgain(handling: Handling, afterMs: number): Promise<void> {
    const { signal } = this.#work;
    await pause(afterMs, signal);
    if (signal.aborted) {
      this.#engineAnswered(handling);
      this.#drop(signal.reason);
    } else this.#hand(handling);
  }

  #engineAnswered(handling: Handling): void {
    if (handling.repetition === 0) return;
    handling.repetition = 0;
    this.#waitingForEngine--;
    this.#changed();
  }

  #finish(handling: Handling, emissions: readonly OutputRecord[]): void {
    this.#running--;
    if (!this.ended.aborted) {
      const isReplay = this.#work.committer.isReplay(handling.entry.position);
      this.#window.finish(handling.slot, isReplay ? NONE : emissions);
      if (this.#committing) this.#hurry();
      else void this.#commitFinished();
    }
    this.#changed();
  }

  /** The stage let go of an entry that the work ends with. */
  #drop(reason: unknown): void {
    this.#running--;
    this.#end(reason);
  }

  async #commitFinished(): Promise<void> {
    this.#committing = true;
    try {
      while (!this.ended.aborted) {
        await this.#rest();
        const prefix = this.#window.takeFinished();
        if (!prefix) break;
        await this.#commit(prefix);
        this.#window.release(prefix);
        this.#notePassed(prefix.to);
        this.#changed();
      }
    } catch (thrown) {
      this.#end(thrown);
    } finally {
      this.#committing = false;
      this.#changed();
    }
  }

  async #commit({ to, emissions, slots, emitted }: FinishedPrefix): Promise<void> {
    try {
      await this.#work.committer.commit(to, emissions, this.#work.signal);
    } catch (thrown) {
      if (!(thrown instanceof TooLarge)) throw thrown;
      const finished = slots.map((slot, i) => ({ slot, emissions: emitted[i] ?? NONE }));
      await this.#narrow(finished, thrown);
    }
  }

  /**
   * The log takes no record of the size of one that these emitted, and took nothing of them: they are committed in
   * halves until the guilty one stands alone, which is given up. What the stage did for the others is not done again.
   */
  async #narrow(finished: readonly Finished[], thrown: TooLarge): Promise<void> {
    const { committer, signal } = this.#work;
    const [first] = finished;
    if (first === undefined) return;
    if (finished.length === 1) {
      const { after, position } = first.slot;
      if (position === undefined) throw thrown;
      const key = first.emissions[0]?.key ?? '';
      await committer.commit(after, [giveUpTooLarge(this.#work, position, key, thrown)], signal);
      return;
    }
    const middle = finished.length >> 1;
    for (const half of [finished.slice(0, middle), finished.slice(middle)]) {
      const to = half.at(-1)?.slot.after;
      if (to === undefined) continue;
      try {
        const emissions = half.flatMap((one) => one.emissions);
        await committer.commit(to, emissions, signal);
      } catch (again) {
        if (!(again instanceof TooLarge)) throw again;
        await this.#narrow(half, again);
      }
    }
  }

  #notePassed(to: Cursor): void {
    const { inHand } = this.#work;
    if (this.#window.uncommitted === 0) inHand.clear();
    else inHand.passed(to);
  }

  /** Until the engine is to be asked again; not when there is much to commit, nor when it is the last time. */
  async #rest(): Promise<void> {
    for (;;) {
      const { committer, stopping } = this.#work;
      const withEmissions = this.#window.holdsEmissions;
      const restMs = withEmissions ? committer.restMs() : committer.positionRestMs();
      if (restMs === 0 || this.#hurried || stopping.aborted || this.ended.aborted) return;
      if (this.#window.isFull(NO_REST_SHARE)) return;
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, restMs);
        this.#resting = {
          withEmissions,
          over() {
            clearTimeout(timer);
            resolve();
          },
        };
      });
      this.#resting = undefined;
    }
  }

  /** Something finished during a rest: it ends where that was no reason for so long a one. */
  #hurry(): void {
    const { holdsEmissions } = this.#window;
    if (holdsEmissions !== this.#resting?.withEmissions || this.#window.isFull(NO_REST_SHARE))
      this.#resting?.over();
  }

  #wake(): void {
    this.#resting?.over();
    this.#changed();
  }

  #end(reason: unknown): void {
    this.#ended.abort(reason);
    this.#wake();
  }

  #changed(): void {
    const change = this.#nextChange;
    this.#nextChange = undefined;
    change?.resolve();
  }
}
