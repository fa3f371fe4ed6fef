import type { OutputRecord, Position } from '@tributary/core';
import type { Cursor } from './cursor.ts';
import { emissionBytes } from './emissions.ts';

/**
 * What one commit holds at most, bytes; an entry whose emissions are more goes alone. Small, as the commits of other
 * partitions and workspaces wait for it.
 */
export const COMMIT_BYTES = 2 * 1024 * 1024;

/** What a finished entry behind an unfinished one weighs beside its emissions, bytes. */
export const FINISHED_BYTES = 64;

export interface FlowLimits {
  /** Bytes of unfinished values and uncommitted emissions. */
  readonly bytes: number;
  /** Entries that are not committed. */
  readonly entries: number;
}

/** An entry's place in the window. */
export interface Slot {
  readonly after: Cursor;
  /** Of its entry, for the case that what it emitted is too large for the log. */
  readonly position: Position | undefined;
  bytes: number;
  emissions: readonly OutputRecord[] | undefined;
}

/** The finished entries at the head of a window, to be committed together. */
export interface FinishedPrefix {
  readonly to: Cursor;
  /** In the order of the entries. */
  readonly emissions: readonly OutputRecord[];
  readonly count: number;
  readonly bytes: number;
  /** Theirs, and what each emitted. */
  readonly slots: readonly Slot[];
  readonly emitted: readonly (readonly OutputRecord[])[];
}

/** What a flow stage has in hand of one partition. Pure bookkeeping: no I/O, no time. */
export class FlowWindow {
  readonly #limits: FlowLimits;
  #slots: Slot[] = [];
  #head = 0;
  #uncommitted = 0;
  #bytes = 0;
  /** Of those, the bytes of what is finished. */
  #finishedBytes = 0;
  /** Entries that are finished and not taken out, and what they emitted. */
  #finished = 0;
  #finishedEmissions = 0;

  constructor(limits: FlowLimits) {
    this.#limits = limits;
  }

  /** Entries that were admitted and are not committed. */
  get uncommitted(): number {
    return this.#uncommitted;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Whether what is finished takes that share of the window or more. */
  isFull(share: number): boolean {
    const { bytes, entries } = this.#limits;
    return this.#finishedBytes >= bytes * share || this.#finished >= entries * share;
  }

  /** True when something that was emitted waits to be committed. */
  get holdsEmissions(): boolean {
    return this.#finishedEmissions > 0;
  }

  /** An empty window takes an entry of any size. */
  hasRoom(bytes: number): boolean {
    if (this.#uncommitted === 0) return true;
    return this.#uncommitted < this.#limits.entries && this.#bytes + bytes <= this.#limits.bytes;
  }

  /** Whether the stage may make more for this entry: the oldest unfinished one always may, else all would wait. */
  mayEmit(slot: Slot): boolean {
    return this.#finishedBytes < this.#limits.bytes || this.#slots[this.#head] === slot;
  }

  admit(after: Cursor, bytes: number, position?: Position): Slot {
    const slot: Slot = { after, position, bytes, emissions: undefined };
    this.#slots.push(slot);
    this.#uncommitted++;
    this.#bytes += bytes;
    return slot;
  }

  finish(slot: Slot, emissions: readonly OutputRecord[]): void {
    const bytes = emissionBytes(emissions) + FINISHED_BYTES;
    this.#bytes += bytes - slot.bytes;
    this.#finishedBytes += bytes;
    this.#finished++;
    this.#finishedEmissions += emissions.length;
    slot.bytes = bytes;
    slot.emissions = emissions;
  }

  /** Takes what one commit may hold of the finished prefix out; it keeps its weight until it is released. */
  takeFinished(): FinishedPrefix | undefined {
    const emissions: OutputRecord[] = [];
    const emitted: (readonly OutputRecord[])[] = [];
    const from = this.#head;
    let to: Cursor | undefined;
    let bytes = 0;
    for (let slot = this.#slots[this.#head]; slot?.emissions; slot = this.#slots[this.#head]) {
      if (to && bytes + slot.bytes > COMMIT_BYTES) break;
      for (const emission of slot.emissions) emissions.push(emission);
      this.#finishedEmissions -= slot.emissions.length;
      bytes += slot.bytes;
      to = slot.after;
      emitted.push(slot.emissions);
      slot.emissions = []; // the slot may stay in the list for long
      this.#head++;
    }
    if (!to) return undefined;
    const count = this.#head - from;
    const slots = this.#slots.slice(from, this.#head);
    this.#finished -= count;
    this.#compact();
    return { to, emissions, count, bytes, slots, emitted };
  }

  /** The prefix is committed. */
  release(prefix: FinishedPrefix): void {
    this.#uncommitted -= prefix.count;
    this.#bytes -= prefix.bytes;
    this.#finishedBytes -= prefix.bytes;
  }

  /** Forgets taken slots in large steps, so that taking one costs little however many there are. */
  #compact(): void {
    if (this.#head === this.#slots.length) this.#slots = [];
    else if (this.#head >= 1_024 && this.#head * 2 > this.#slots.length)
      this.#slots = this.#slots.slice(this.#head);
    else return;
    this.#head = 0;
  }
}
