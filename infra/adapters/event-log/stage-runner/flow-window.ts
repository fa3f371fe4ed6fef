import {
  type FlowContext,
  type LogEntry,
  type OutputRecord,
  type Position,
  type StageNote,
  Tally,
} from '@tributary/core';
import type { Cursor } from './cursor.ts';
import { outputBytes } from './work.ts';

/**
 * Bytes of one commit, at most; an entry with larger output records is committed alone. Small, as the commits of other
 * partitions and workspaces wait for it.
 */
export const COMMIT_BYTES = 2 * 1024 * 1024;

/** The overhead of a finished entry behind an unfinished one, beside its output records, bytes. */
export const FINISHED_BYTES = 64;

/** Approximate memory of one note of a finished entry until it is committed, bytes. */
const NOTE_BYTES = 100;

const NONE: readonly OutputRecord[] = [];
const NO_NOTES: readonly StageNote[] = [];

export interface FlowLimits {
  /** Bytes of unfinished values and uncommitted output records. */
  readonly bytes: number;
  /** Entries that are not committed. */
  readonly entries: number;
}

/** An entry's place in the window. */
export interface Slot {
  readonly after: Cursor;
  /** The position of the entry, for the case that its output records are too large for the log. */
  readonly position: Position | undefined;
  bytes: number;
  outputRecords: readonly OutputRecord[] | undefined;
  notes: readonly StageNote[];
}

/** The finished entries at the head of a window, to be committed together. */
export interface FinishedPrefix {
  readonly to: Cursor;
  /** In the order of the entries. */
  readonly outputRecords: readonly OutputRecord[];
  readonly tally: Tally;
  readonly bytes: number;
  /** Of the entries, with the output records and notes of each until the prefix is released. */
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

  get bytes(): number {
    return this.#bytes;
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

  admit(after: Cursor, bytes: number, position?: Position): Slot {
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
    const outputRecords: OutputRecord[] = [];
    const tally = new Tally();
    const from = this.#head;
    let to: Cursor | undefined;
    let bytes = 0;
    for (let slot = this.#slots[this.#head]; slot?.outputRecords; slot = this.#slots[this.#head]) {
      if (to && bytes + slot.bytes > COMMIT_BYTES) break;
      for (const outputRecord of slot.outputRecords) outputRecords.push(outputRecord);
      this.#finishedOutputRecords -= slot.outputRecords.length;
      bytes += slot.bytes;
      to = slot.after;
      for (const note of slot.notes) tally.add(note);
      this.#head++;
    }
    if (!to) return undefined;
    const slots = this.#slots.slice(from, this.#head);
    this.#finished -= slots.length;
    this.#compact();
    return { to, outputRecords, tally, bytes, slots };
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

/** The dispatcher of in-flight records. */
export interface Dispatcher {
  readonly signal: AbortSignal;
  readonly stopping: AbortSignal;
  emitted(record: InFlightRecord, outputRecords: readonly OutputRecord[], notes: readonly StageNote[]): void;
  threw(record: InFlightRecord, thrown: unknown): void;
  /** Undefined while the stage may make more output records for it; else resolves when that may have changed. */
  room(record: InFlightRecord): Promise<void> | undefined;
}

/**
 * An entry that a flow stage has in flight, and the context in which the stage finishes it. Its slot stays in the window for
 * longer, until the entries before it are finished.
 */
export class InFlightRecord implements FlowContext {
  readonly entry: LogEntry;
  readonly slot: Slot;
  readonly bytes: number;
  readonly #dispatcher: Dispatcher;
  throws = 0;
  /** How often in a row an engine was unavailable. */
  repetition = 0;
  #isOpen = false;
  #notes = NO_NOTES;

  constructor(dispatcher: Dispatcher, entry: LogEntry, slot: Slot) {
    this.#dispatcher = dispatcher;
    this.entry = entry;
    this.slot = slot;
    this.bytes = slot.bytes;
  }

  get signal(): AbortSignal {
    return this.#dispatcher.signal;
  }

  get stopping(): AbortSignal {
    return this.#dispatcher.stopping;
  }

  /** Before each dispatch: the stage calls `done` or `failed` once. */
  open(): void {
    this.#isOpen = true;
    this.#notes = NO_NOTES;
  }

  done(outputRecords: readonly OutputRecord[]): void {
    if (this.#close()) this.#dispatcher.emitted(this, outputRecords, this.#notes);
  }

  count(note: StageNote): void {
    this.#notes = this.#notes === NO_NOTES ? [note] : [...this.#notes, note];
  }

  failed(thrown: unknown): void {
    if (this.#close()) this.#dispatcher.threw(this, thrown);
  }

  room(): Promise<void> | undefined {
    return this.#dispatcher.room(this);
  }

  #close(): boolean {
    const wasOpen = this.#isOpen;
    this.#isOpen = false;
    return wasOpen;
  }
}
