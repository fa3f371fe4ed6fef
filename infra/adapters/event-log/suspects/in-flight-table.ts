import type { LogEntry } from '@tributary/core';
import type { Cursor } from '../stage-runner/cursor.ts';

/** Partitions of stages in a table (384 KiB); entries of further ones are not recorded. */
const MOST_SLOTS = 8_192;

/** Numbers of a slot. */
const SLOT = { state: 0, fromOffset: 1, fromIndex: 2, toOffset: 3, toIndex: 4, timestamp: 5, numbers: 6 };

const IDLE = 0;
const IN_FLIGHT = 1;
/** In flight, and dispatched alone as a suspect. */
const ALONE = 2;

/** A partition at work for a stage. */
export interface SlotName {
  readonly stage: string;
  readonly topic: string;
  readonly partition: number;
}

/** The entries of one partition that a stage had not finished, both ends included. */
export interface InFlightRange extends SlotName {
  readonly from: Cursor;
  readonly to: Cursor;
  /** The append time of the entry `to`, epoch ms. */
  readonly timestamp: number;
  /** One entry that was dispatched alone as a suspect. */
  readonly alone: boolean;
}

/** The memory of a table, shared with the thread that outlives the stages. */
export function inFlightMemory(slots = MOST_SLOTS): SharedArrayBuffer {
  return new SharedArrayBuffer(slots * SLOT.numbers * Float64Array.BYTES_PER_ELEMENT);
}

/**
 * The entries that the stages of this thread have in flight, by partition, in memory that survives the thread. An entry
 * costs two or three plain stores. The table is read after the thread has ended, so no store needs to be atomic.
 */
export class InFlightTable {
  readonly #numbers: Float64Array;
  readonly #free: number[] = [];
  readonly #named: (slot: number, name: SlotName) => void;
  #used = 0;

  /** `named` is called with the partition of a slot before the slot is used. */
  constructor(
    memory: SharedArrayBuffer = inFlightMemory(),
    named: (slot: number, name: SlotName) => void = () => {},
  ) {
    this.#numbers = new Float64Array(memory);
    this.#named = named;
  }

  /** A slot for a partition of a stage, until `close`. */
  open(name: SlotName): InFlightEntries {
    const slot = this.#free.pop() ?? this.#used;
    const from = slot * SLOT.numbers;
    if (from + SLOT.numbers > this.#numbers.length)
      return new InFlightEntries(new Float64Array(SLOT.numbers), () => {});
    if (slot === this.#used) this.#used++;
    this.#named(slot, name);
    return new InFlightEntries(this.#numbers.subarray(from, from + SLOT.numbers), () =>
      this.#free.push(slot),
    );
  }

  /** Whether no partition has anything in flight. */
  get isEmpty(): boolean {
    for (let slot = 0; slot < this.#used; slot++)
      if (this.#numbers[slot * SLOT.numbers + SLOT.state] !== IDLE) return false;
    return true;
  }
}

/** The entries of one partition that a stage has in flight. */
export class InFlightEntries {
  /** Set before a suspect is dispatched alone. */
  alone = false;
  readonly #numbers: Float64Array;
  readonly #closed: () => void;

  constructor(numbers: Float64Array, closed: () => void) {
    this.#numbers = numbers;
    this.#closed = closed;
  }

  /** Adds an entry that is about to be dispatched, behind those in flight. */
  take({ position: { offset, index }, timestamp }: LogEntry): void {
    const numbers = this.#numbers;
    numbers[SLOT.toOffset] = offset;
    numbers[SLOT.toIndex] = index;
    numbers[SLOT.timestamp] = timestamp;
    if (numbers[SLOT.state] !== IDLE) return;
    numbers[SLOT.fromOffset] = offset;
    numbers[SLOT.fromIndex] = index;
    numbers[SLOT.state] = this.alone ? ALONE : IN_FLIGHT;
  }

  /** The entries before the cursor are done. */
  passed({ offset, index }: Cursor): void {
    this.#numbers[SLOT.fromOffset] = offset;
    this.#numbers[SLOT.fromIndex] = index;
  }

  /** All entries are done. */
  clear(): void {
    this.#numbers[SLOT.state] = IDLE;
  }

  close(): void {
    this.clear();
    this.#closed();
  }
}

/** The entries in flight when the thread that wrote the table ended. */
export function rangesInFlight(
  memory: SharedArrayBuffer,
  names: ReadonlyMap<number, SlotName>,
): readonly InFlightRange[] {
  const numbers = new Float64Array(memory);
  const ranges: InFlightRange[] = [];
  for (const [slot, name] of names) {
    const at = (number: number) => numbers[slot * SLOT.numbers + number] ?? 0;
    const state = at(SLOT.state);
    if (state === IDLE) continue;
    const from = { offset: at(SLOT.fromOffset), index: at(SLOT.fromIndex) };
    const to = { offset: at(SLOT.toOffset), index: at(SLOT.toIndex) };
    const isOne = from.offset === to.offset && from.index === to.index;
    ranges.push({ ...name, from, to, timestamp: at(SLOT.timestamp), alone: state === ALONE && isOne });
  }
  return ranges;
}

/** The part of a table's memory with the slots of these names. */
export function usedMemory(memory: SharedArrayBuffer, names: ReadonlyMap<number, SlotName>): Uint8Array {
  let slots = 0;
  for (const slot of names.keys()) slots = Math.max(slots, slot + 1);
  return new Uint8Array(memory, 0, slots * SLOT.numbers * Float64Array.BYTES_PER_ELEMENT);
}
