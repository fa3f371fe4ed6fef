import type { KeptEvent, TailLimits } from '@tributary/core';

/**
 * An event with its number in its tail. Numbers are consecutive, from 1. An era identifies one lifetime of a tail: an
 * engine that dropped a tail begins a new one. An id is `<era>-<suffix of the engine>-<number>`.
 */
export interface NumberedEvent extends KeptEvent {
  readonly era: string;
  readonly number: number;
}

const ID = /^([0-9a-z]{1,20})-[0-9a-z]{1,20}-(\d{1,15})$/;

export function idOf(era: string, suffix: string | number, number: number): string {
  return `${era}-${suffix}-${number}`;
}

/** Era and number of an id; undefined for any other text. */
export function parseId(id: string): { readonly era: string; readonly number: number } | undefined {
  const [, era, number] = ID.exec(id) ?? [];
  return era === undefined || number === undefined ? undefined : { era, number: Number(number) };
}

/** Empty slots at the front of the array before it is compacted. */
const MAX_EMPTY_SLOTS = 512;

/** The newest events of one tail, numbered without gaps, within the tail's limits. */
export class KeptEvents {
  readonly #limits: TailLimits;
  #events: (NumberedEvent | undefined)[] = [];
  /** Number of empty slots before the first kept event. */
  #emptySlots = 0;
  #characters = 0;
  #last = 0;

  constructor(limits: TailLimits) {
    this.#limits = limits;
  }

  /** Number of the first kept event; `last + 1` when none is kept. */
  get first(): number {
    return this.#last - (this.#events.length - this.#emptySlots) + 1;
  }

  /** Number of the newest event; 0 before the first. */
  get last(): number {
    return this.#last;
  }

  get characters(): number {
    return this.#characters;
  }

  /** Adds the newest event. One with another era, or not the next number, replaces all kept events. */
  push(event: NumberedEvent): void {
    if (event.number !== this.#last + 1 || event.era !== this.newest?.era) this.#clear();
    this.#last = event.number;
    this.#events.push(event);
    this.#characters += event.data.length;
    while (this.#isOverLimit()) this.#drop();
  }

  at(number: number): NumberedEvent | undefined {
    const slot = number - this.first;
    return slot < 0 ? undefined : this.#events[this.#emptySlots + slot];
  }

  get newest(): NumberedEvent | undefined {
    return this.at(this.#last);
  }

  /** The kept events after a number, in order. */
  after(number: number): readonly NumberedEvent[] {
    const skipped = Math.max(0, number + 1 - this.first);
    return this.#events.slice(this.#emptySlots + skipped) as NumberedEvent[];
  }

  /** The newest event is always kept, whatever its size. */
  #isOverLimit(): boolean {
    const count = this.#events.length - this.#emptySlots;
    return count > 1 && (count > this.#limits.events || this.#characters > this.#limits.characters);
  }

  #drop(): void {
    this.#characters -= this.#events[this.#emptySlots]?.data.length ?? 0;
    this.#events[this.#emptySlots++] = undefined;
    if (this.#emptySlots < MAX_EMPTY_SLOTS) return;
    this.#events = this.#events.slice(this.#emptySlots);
    this.#emptySlots = 0;
  }

  #clear(): void {
    this.#events = [];
    this.#emptySlots = 0;
    this.#characters = 0;
  }
}
