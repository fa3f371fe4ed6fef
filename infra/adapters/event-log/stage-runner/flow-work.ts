import {
  backoffMs,
  type FlowStage,
  messageOf,
  type OutputRecord,
  POISON_ATTEMPTS,
  recordBytes,
  type StageNote,
  Tally,
  TooLarge,
} from '@tributary/core';
import type { Cursor, Taken } from './cursor.ts';
import {
  type Dispatcher,
  type FinishedPrefix,
  FlowWindow,
  InFlightRecord,
  type Slot,
} from './flow-window.ts';
import { pause } from './waiting.ts';
import {
  checkOutputRecords,
  deadLetter,
  deadLetterTooLarge,
  failureOf,
  quarantine,
  type Work,
} from './work.ts';

/** A commit does not pause when finished entries take this share of the window. */
const NO_PAUSE_SHARE = 1 / 16;

/** How often to check whether a stage accepts entries again, ms. */
const BACKPRESSURE_MS = 25;

const NONE: readonly OutputRecord[] = [];
const NO_NOTES: readonly StageNote[] = [];

/** The pause before a commit. */
interface CommitPause {
  readonly withOutputRecords: boolean;
  end(): void;
}

/**
 * Dispatches the entries of one partition to a flow stage inside its window, and commits the finished prefix while others
 * continue. It ends for good at the first `Rewind` or `Fenced` of the stage and at a failed commit: that error is the reason of
 * `ended`, and `tryAdmit` and `drained` throw it from then on.
 */
export class FlowWork implements Dispatcher {
  readonly #stage: FlowStage;
  readonly #work: Work;
  readonly #window: FlowWindow;
  readonly #ended = new AbortController();
  #running = 0;
  /** Entries that are repeated as an engine is unavailable; while there are any, no entry is admitted. */
  #waitingForEngine = 0;
  #committing = false;
  #nextChange: PromiseWithResolvers<void> | undefined;
  #pausing: CommitPause | undefined;
  #checking: NodeJS.Timeout | undefined;
  #isThrottled = true;

  /** `work.stopping` resolves `changed()`; admitted entries continue. */
  constructor(stage: FlowStage, work: Work, maxUncommitted: number) {
    this.#stage = stage;
    this.#work = work;
    this.#window = new FlowWindow({ bytes: stage.windowBytes, entries: maxUncommitted });
    const until = { once: true, signal: this.#ended.signal };
    work.signal.addEventListener('abort', () => this.#end(work.signal.reason), until);
    work.stopping.addEventListener('abort', () => this.#wake(), until);
    if (work.signal.aborted) this.#end(work.signal.reason);
  }

  /** Fires when no entry can be admitted or committed any more. */
  get ended(): AbortSignal {
    return this.#ended.signal;
  }

  /** Dispatches the entry if there is room; else `changed()` resolves when to try again. */
  tryAdmit(taken: Taken): boolean {
    this.ended.throwIfAborted();
    const bytes = recordBytes(taken.entry);
    if (this.#waitingForEngine > 0 || !this.#window.hasRoom(bytes)) return false;
    const { topic, partition } = taken.entry.position;
    if (this.#stage.canAccept?.(topic, partition) === false) {
      this.#checkAgain();
      return false;
    }
    this.#running++;
    this.#work.inFlight.take(taken.entry);
    const slot = this.#window.admit(taken.after, bytes, taken.entry.position);
    this.#dispatch(new InFlightRecord(this, taken.entry, slot));
    return true;
  }

  /** Dead-letters an entry that the stage does not get, in its order. */
  quarantine(taken: Taken, reason: string): void {
    this.ended.throwIfAborted();
    this.#running++;
    const slot = this.#window.admit(taken.after, 0, taken.entry.position);
    this.#finish(new InFlightRecord(this, taken.entry, slot), quarantine(this.#work, taken.entry, reason));
  }

  /** False: commits follow each other without a pause, for a caller that waits for each entry. */
  set isThrottled(isThrottled: boolean) {
    this.#isThrottled = isThrottled;
    if (!isThrottled) this.#pausing?.end();
  }

  /** A stage may accept entries again without a change here. */
  #checkAgain(): void {
    this.#checking ??= setTimeout(() => {
      this.#checking = undefined;
      this.#changed();
    }, BACKPRESSURE_MS);
  }

  /** Resolves at the next change that may make room. */
  changed(): Promise<void> {
    this.#nextChange ??= Promise.withResolvers();
    return this.#nextChange.promise;
  }

  /** Resolves when all admitted entries are committed. */
  async drained(): Promise<void> {
    for (;;) {
      this.ended.throwIfAborted();
      if (this.#window.uncommitted === 0) return;
      await this.changed();
    }
  }

  /** Resolves when the stage has no entry of this partition in flight, or the signal fires. */
  async settled(signal: AbortSignal): Promise<void> {
    const notify = () => this.#changed();
    signal.addEventListener('abort', notify, { once: true });
    while ((this.#running > 0 || this.#committing) && !signal.aborted) await this.changed();
    signal.removeEventListener('abort', notify);
  }

  #dispatch(record: InFlightRecord): void {
    record.open();
    try {
      this.#stage.handle(record.entry, record);
    } catch (thrown) {
      record.failed(thrown);
    }
  }

  /** Part of `Dispatcher`. */
  emitted(record: InFlightRecord, outputRecords: readonly OutputRecord[], notes: readonly StageNote[]): void {
    this.#engineAnswered(record);
    try {
      checkOutputRecords(outputRecords, this.#work.writes);
    } catch (thrown) {
      this.threw(record, thrown);
      return;
    }
    this.#finish(record, outputRecords, notes);
  }

  /**
   * Part of `Dispatcher`. The entry is dispatched again while an engine is unavailable (no other is admitted meanwhile), and
   * after other errors until it is dead-lettered.
   */
  threw(record: InFlightRecord, thrown: unknown): void {
    const { stage, logger, backoff, signal } = this.#work;
    const failure = failureOf(thrown);
    if (failure === 'repeat' && !signal.aborted) {
      const { repetition } = record;
      logger.warn(
        { stage, repetition, error: messageOf(thrown) },
        'an engine does not answer; the entry will be repeated',
      );
      if (repetition === 0) this.#waitingForEngine++;
      record.repetition++;
      void this.#dispatchAgain(record, backoffMs(repetition, backoff));
      return;
    }
    this.#engineAnswered(record);
    if (signal.aborted) this.#drop(signal.reason);
    else if (failure !== 'throw') this.#drop(thrown);
    else {
      const { position } = record.entry;
      const throws = ++record.throws;
      if (throws >= POISON_ATTEMPTS) {
        this.#finish(record, deadLetter(this.#work, record.entry, thrown));
        return;
      }
      logger.warn(
        { stage, position, throws, error: messageOf(thrown) },
        'a stage failed on a record and tries it again',
      );
      void this.#dispatchAgain(record, backoffMs(throws - 1, backoff));
    }
  }

  /** Part of `Dispatcher`. */
  room(record: InFlightRecord): Promise<void> | undefined {
    this.ended.throwIfAborted();
    return this.#window.mayEmit(record.slot) ? undefined : this.changed();
  }

  /** Part of `Dispatcher`. */
  get signal(): AbortSignal {
    return this.#work.signal;
  }

  /** Part of `Dispatcher`. */
  get stopping(): AbortSignal {
    return this.#work.stopping;
  }

  async #dispatchAgain(record: InFlightRecord, afterMs: number): Promise<void> {
    const { signal } = this.#work;
    await pause(afterMs, signal);
    if (signal.aborted) {
      this.#engineAnswered(record);
      this.#drop(signal.reason);
    } else this.#dispatch(record);
  }

  #engineAnswered(record: InFlightRecord): void {
    if (record.repetition === 0) return;
    record.repetition = 0;
    this.#waitingForEngine--;
    this.#changed();
  }

  #finish(record: InFlightRecord, outputRecords: readonly OutputRecord[], notes = NO_NOTES): void {
    this.#running--;
    if (!this.ended.aborted) {
      const isReplay = this.#work.committer.isReplay(record.entry.position);
      this.#window.finish(record.slot, isReplay ? NONE : outputRecords, isReplay ? NO_NOTES : notes);
      if (this.#committing) this.#endPauseIfDue();
      else void this.#commitFinished();
    }
    this.#changed();
  }

  /** The stage returned an entry with an error that ends the work. */
  #drop(reason: unknown): void {
    this.#running--;
    this.#end(reason);
  }

  async #commitFinished(): Promise<void> {
    this.#committing = true;
    try {
      while (!this.ended.aborted) {
        await this.#pauseBeforeCommit();
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

  async #commit({ to, outputRecords, tally, slots }: FinishedPrefix): Promise<void> {
    try {
      await this.#work.committer.commit(to, outputRecords, this.#work.signal, tally);
    } catch (thrown) {
      if (!(thrown instanceof TooLarge)) throw thrown;
      await this.#commitInHalves(slots, thrown);
    }
  }

  /**
   * An output record is larger than its topic takes, and nothing of these entries was committed. They are committed in
   * halves until the guilty one stands alone, which is dead-lettered. The stage does not get the others again.
   */
  async #commitInHalves(slots: readonly Slot[], thrown: TooLarge): Promise<void> {
    const { committer, signal } = this.#work;
    const [first] = slots;
    if (first === undefined) return;
    if (slots.length === 1) {
      const { after, position, outputRecords } = first;
      if (position === undefined) throw thrown;
      const key = outputRecords?.[0]?.key ?? '';
      await committer.commit(after, [deadLetterTooLarge(this.#work, position, key, thrown)], signal);
      return;
    }
    const middle = slots.length >> 1;
    for (const half of [slots.slice(0, middle), slots.slice(middle)]) {
      const to = half.at(-1)?.after;
      if (to === undefined) continue;
      try {
        const outputRecords = half.flatMap((slot) => slot.outputRecords ?? NONE);
        const tally = Tally.of(half.flatMap(({ notes }) => notes));
        await committer.commit(to, outputRecords, signal, tally);
      } catch (again) {
        if (!(again instanceof TooLarge)) throw again;
        await this.#commitInHalves(half, again);
      }
    }
  }

  #notePassed(to: Cursor): void {
    const { inFlight } = this.#work;
    if (this.#window.uncommitted === 0) inFlight.clear();
    else inFlight.passed(to);
  }

  /** Pauses as the throttle demands; not with much to commit, nor while the stage stops. */
  async #pauseBeforeCommit(): Promise<void> {
    for (;;) {
      const { committer, stopping } = this.#work;
      const withOutputRecords = this.#window.hasUncommittedOutput;
      const pauseMs = withOutputRecords ? committer.pauseMs() : committer.positionPauseMs();
      if (pauseMs === 0 || !this.#isThrottled || stopping.aborted || this.ended.aborted) return;
      if (this.#window.isFull(NO_PAUSE_SHARE)) return;
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, pauseMs);
        this.#pausing = {
          withOutputRecords,
          end() {
            clearTimeout(timer);
            resolve();
          },
        };
      });
      this.#pausing = undefined;
    }
  }

  /** An entry finished during a pause, which ends where the entry has a shorter one or fills the window. */
  #endPauseIfDue(): void {
    const { hasUncommittedOutput } = this.#window;
    if (hasUncommittedOutput !== this.#pausing?.withOutputRecords || this.#window.isFull(NO_PAUSE_SHARE))
      this.#pausing?.end();
  }

  #wake(): void {
    this.#pausing?.end();
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
