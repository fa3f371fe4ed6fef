import type { TailLimits } from '@tributary/core';
import type { NumberedEvent } from './numbered-event.ts';

/** Slots of dropped events at the front before the list is closed up. */
const LOOSE_SLOTS = 512;

/** The newest events of one tail, numbered without a hole, within its limits. */
export class KeptEvents {
  readonly #limits: TailLimits;
  #events: (NumberedEvent | undefined)[] = [];
  /** Slots in front of the first kept event. */
  #dropped = 0;
  #characters = 0;
  #last = 0;

  constructor(limits: TailLimits) {
    this.#limits = limits;
  }

  /** Number of the first kept event; one past `last` where none is kept. */
  get first(): number {
    return this.#last - (this.#events.length - this.#dropped) + 1;
  }

  /** Number of the newest event, also when it is kept no more; 0 before the first. */
  get last(): number {
    return this.#last;
  }

  get characters(): number {
    return this.#characters;
  }

  /** Adds the newest. One that is not the next in number, or of another era, takes the place of all that were kept. */
  push(event: NumberedEvent): void {
    if (event.number !== this.#last + 1 || event.era !== this.newest?.era) this.#clear();
    this.#last = event.number;
    this.#events.push(event);
    this.#characters += event.data.length;
    while (this.#isOver()) this.#drop();
  }

  at(number: number): NumberedEvent | undefined {
    const slot = number - this.first;
    return slot < 0 ? undefined : this.#events[this.#dropped + slot];
  }

  get newest(): NumberedEvent | undefined {
    return this.at(this.#last);
  }

  /** Kept events behind a number, in order. */
  after(number: number): readonly NumberedEvent[] {
    const skipped = Math.max(0, number + 1 - this.first);
    return this.#events.slice(this.#dropped + skipped) as NumberedEvent[];
  }

  /** The newest event always stays, whatever its size. */
  #isOver(): boolean {
    const count = this.#events.length - this.#dropped;
    return count > 1 && (count > this.#limits.events || this.#characters > this.#limits.characters);
  }

  #drop(): void {
    this.#characters -= this.#events[this.#dropped]?.data.length ?? 0;
    this.#events[this.#dropped++] = undefined;
    if (this.#dropped < LOOSE_SLOTS) return;
    this.#events = this.#events.slice(this.#dropped);
    this.#dropped = 0;
  }

  #clear(): void {
    this.#events = [];
    this.#dropped = 0;
    this.#characters = 0;
  }
}
