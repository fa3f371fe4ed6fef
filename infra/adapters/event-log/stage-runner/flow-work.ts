import {
  backoffMs,
  type FlowContext,
  type FlowStage,
  type LogEntry,
  messageOf,
  type OutputRecord,
  POISON_ATTEMPTS,
  type Position,
  recordBytes,
  type StageNote,
  Tally,
  TooLarge,
} from '@tributary/core';
import { SplitPlan } from './batch-work.ts';
import {
  type Cursor,
  checkOutputRecords,
  deadLetter,
  deadLetterTooLarge,
  failureOf,
  outputBytes,
  pause,
  quarantine,
  type Taken,
  type Work,
} from './work.ts';

/** A commit does not pause when finished entries take this share of the window. */
const NO_PAUSE_SHARE = 1 / 16;

/** How often to check whether a stage accepts entries again, ms. */
const BACKPRESSURE_MS = 25;

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
export class FlowWork {
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
  constructor(stage: FlowStage, work: Work) {
    this.#stage = stage;
    this.#work = work;
    this.#window = new FlowWindow({ bytes: stage.windowBytes, entries: work.runner.maxUncommitted });
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
    const slot = this.#window.admit(taken, bytes);
    this.#dispatch(new InFlightRecord(this, taken.entry, slot));
    return true;
  }

  /** Dead-letters an entry that the stage does not get, in its order. */
  quarantine(taken: Taken, reason: string): void {
    this.ended.throwIfAborted();
    this.#running++;
    const slot = this.#window.admit(taken, 0);
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
  async noneInFlight(signal: AbortSignal): Promise<void> {
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

  /** Called by the record. */
  emitted(record: InFlightRecord, outputRecords: readonly OutputRecord[], notes: readonly StageNote[]): void {
    this.#engineAnswered(record);
    try {
      checkOutputRecords(outputRecords, this.#stage);
    } catch (thrown) {
      this.threw(record, thrown);
      return;
    }
    this.#finish(record, outputRecords, notes);
  }

  /**
   * Called by the record. The entry is dispatched again while an engine is unavailable (no other is admitted meanwhile), and
   * after other errors until it is dead-lettered.
   */
  threw(record: InFlightRecord, thrown: unknown): void {
    const { runner, signal } = this.#work;
    const { logger, backoff } = runner;
    const { name: stage } = this.#stage;
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

  /** Undefined while the stage may make more output records for the record; else resolves when that may have changed. */
  room(record: InFlightRecord): Promise<void> | undefined {
    this.ended.throwIfAborted();
    return this.#window.mayEmit(record.slot) ? undefined : this.changed();
  }

  get signal(): AbortSignal {
    return this.#work.signal;
  }

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
        await this.#commit(prefix.slots);
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

  /**
   * Where an output record is larger than its topic takes, nothing is committed: the entries are committed in halves until the
   * guilty one stands alone, which is dead-lettered. The stage does not get the others again.
   */
  async #commit(slots: readonly Slot[]): Promise<void> {
    const { committer, signal } = this.#work;
    const plan = new SplitPlan(slots.length);
    for (let range = plan.next(); range; range = plan.next()) {
      const part = slots.slice(range.from, range.to);
      const [first, last] = [part[0], part.at(-1)];
      if (first === undefined || last === undefined) return;
      try {
        const outputRecords = part.flatMap((slot) => slot.outputRecords ?? NONE);
        const tally = Tally.of(part.flatMap(({ notes }) => notes));
        await committer.commit(last.after, outputRecords, signal, tally);
      } catch (thrown) {
        if (!(thrown instanceof TooLarge)) throw thrown;
        if (part.length > 1) {
          plan.threw();
          continue;
        }
        const key = first.outputRecords?.[0]?.key ?? '';
        await committer.commit(
          last.after,
          [deadLetterTooLarge(this.#work, first.position, key, thrown)],
          signal,
        );
      }
      plan.done();
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

/**
 * Bytes of one commit, at most; an entry with larger output records is committed alone. Small, as the commits of other
 * partitions and workspaces wait for it.
 */
export const COMMIT_BYTES = 2 * 1024 * 1024;

/** The overhead of a finished entry behind an unfinished one, beside its output records, bytes. */
const FINISHED_BYTES = 64;

/** Approximate memory of one note of a finished entry until it is committed, bytes. */
const NOTE_BYTES = 100;

const NONE: readonly OutputRecord[] = [];
const NO_NOTES: readonly StageNote[] = [];

interface FlowLimits {
  /** Bytes of unfinished values and uncommitted output records. */
  readonly bytes: number;
  /** Entries that are not committed. */
  readonly entries: number;
}

/** An entry's place in the window. */
interface Slot {
  readonly after: Cursor;
  readonly position: Position;
  bytes: number;
  outputRecords: readonly OutputRecord[] | undefined;
  notes: readonly StageNote[];
}

/** The finished entries at the head of a window, to be committed together. */
interface FinishedPrefix {
  readonly to: Cursor;
  readonly bytes: number;
  /** In the order of the entries, with the output records and notes of each until the prefix is released. */
  readonly slots: readonly Slot[];
}

/**
 * The entries of one partition that a flow stage has in flight or that are not committed, bounded in bytes and number. They
 * are admitted in order and finish in any. Bookkeeping without I/O and time.
 */
export class FlowWindow {
  readonly #limits: FlowLimits;
  #slots: Slot[] = [];
  #head = 0;
  #uncommitted = 0;
  #bytes = 0;
  /** The part of `#bytes` that finished entries have. */
  #finishedBytes = 0;
  /** Entries that are finished and not taken out, and their output records. */
  #finished = 0;
  #finishedOutputRecords = 0;

  constructor(limits: FlowLimits) {
    this.#limits = limits;
  }

  /** Entries that are admitted and not committed. */
  get uncommitted(): number {
    return this.#uncommitted;
  }

  /** Whether finished entries take that share of the window. */
  isFull(share: number): boolean {
    const { bytes, entries } = this.#limits;
    return this.#finishedBytes >= bytes * share || this.#finished >= entries * share;
  }

  /** Whether output records wait to be committed. */
  get hasUncommittedOutput(): boolean {
    return this.#finishedOutputRecords > 0;
  }

  /** An empty window takes an entry of any size. */
  hasRoom(bytes: number): boolean {
    if (this.#uncommitted === 0) return true;
    return this.#uncommitted < this.#limits.entries && this.#bytes + bytes <= this.#limits.bytes;
  }

  /**
   * Whether the stage may make more output records for this entry; for the oldest unfinished one always, else all would
   * wait.
   */
  mayEmit(slot: Slot): boolean {
    return this.#finishedBytes < this.#limits.bytes || this.#slots[this.#head] === slot;
  }

  admit({ after, entry: { position } }: Taken, bytes: number): Slot {
    const slot: Slot = { after, position, bytes, outputRecords: undefined, notes: NO_NOTES };
    this.#slots.push(slot);
    this.#uncommitted++;
    this.#bytes += bytes;
    return slot;
  }

  finish(slot: Slot, outputRecords: readonly OutputRecord[], notes = NO_NOTES): void {
    const bytes = outputBytes(outputRecords) + FINISHED_BYTES + notes.length * NOTE_BYTES;
    this.#bytes += bytes - slot.bytes;
    this.#finishedBytes += bytes;
    this.#finished++;
    this.#finishedOutputRecords += outputRecords.length;
    slot.bytes = bytes;
    slot.outputRecords = outputRecords;
    slot.notes = notes;
  }

  /** Takes the finished prefix out, up to one commit; its bytes count until it is released. */
  takeFinished(): FinishedPrefix | undefined {
    const from = this.#head;
    let to: Cursor | undefined;
    let bytes = 0;
    for (let slot = this.#slots[this.#head]; slot?.outputRecords; slot = this.#slots[this.#head]) {
      if (to && bytes + slot.bytes > COMMIT_BYTES) break;
      this.#finishedOutputRecords -= slot.outputRecords.length;
      bytes += slot.bytes;
      to = slot.after;
      this.#head++;
    }
    if (!to) return undefined;
    const slots = this.#slots.slice(from, this.#head);
    this.#finished -= slots.length;
    this.#compact();
    return { to, bytes, slots };
  }

  /** The prefix is committed. */
  release({ slots, bytes }: FinishedPrefix): void {
    this.#uncommitted -= slots.length;
    this.#bytes -= bytes;
    this.#finishedBytes -= bytes;
    // The slots may stay in the list for long.
    for (const slot of slots) {
      slot.outputRecords = NONE;
      slot.notes = NO_NOTES;
    }
  }

  /** Removes taken slots in large steps, so that the cost of taking one does not grow with their number. */
  #compact(): void {
    if (this.#head === this.#slots.length) this.#slots = [];
    else if (this.#head >= 1_024 && this.#head * 2 > this.#slots.length)
      this.#slots = this.#slots.slice(this.#head);
    else return;
    this.#head = 0;
  }
}

/**
 * An entry that a flow stage has in flight, and the context in which the stage finishes it. Its slot stays in the window for
 * longer, until the entries before it are finished.
 */
class InFlightRecord implements FlowContext {
  readonly entry: LogEntry;
  readonly slot: Slot;
  readonly bytes: number;
  readonly #flow: FlowWork;
  throws = 0;
  /** How often in a row an engine was unavailable. */
  repetition = 0;
  #isOpen = false;
  #notes = NO_NOTES;

  constructor(flow: FlowWork, entry: LogEntry, slot: Slot) {
    this.#flow = flow;
    this.entry = entry;
    this.slot = slot;
    this.bytes = slot.bytes;
  }

  get signal(): AbortSignal {
    return this.#flow.signal;
  }

  get stopping(): AbortSignal {
    return this.#flow.stopping;
  }

  /** Before each dispatch: the stage calls `done` or `failed` once. */
  open(): void {
    this.#isOpen = true;
    this.#notes = NO_NOTES;
  }

  done(outputRecords: readonly OutputRecord[]): void {
    if (this.#close()) this.#flow.emitted(this, outputRecords, this.#notes);
  }

  count(note: StageNote): void {
    this.#notes = this.#notes === NO_NOTES ? [note] : [...this.#notes, note];
  }

  failed(thrown: unknown): void {
    if (this.#close()) this.#flow.threw(this, thrown);
  }

  room(): Promise<void> | undefined {
    return this.#flow.room(this);
  }

  #close(): boolean {
    const wasOpen = this.#isOpen;
    this.#isOpen = false;
    return wasOpen;
  }
}
