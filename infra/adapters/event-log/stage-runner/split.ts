import { POISON_ATTEMPTS } from '@tributary/core';

/** Entries `from` (inclusive) to `to` (exclusive) of a batch. */
export interface Range {
  readonly from: number;
  readonly to: number;
}

/**
 * Which part of a batch to hand over next. A part that throws is halved until the guilty entry stands alone; that one
 * is handed over again until it has thrown `POISON_ATTEMPTS` times. Parts come in order, so the position can follow.
 */
export class SplitPlan {
  /** The next part is the last one. */
  readonly #parts: Range[];
  #throws = 0;

  constructor(length: number) {
    this.#parts = length > 0 ? [{ from: 0, to: length }] : [];
  }

  next(): Range | undefined {
    return this.#parts.at(-1);
  }

  /** The first entries of the part are done (or given up), by default all: on to the next one. */
  done(entries = Number.POSITIVE_INFINITY): void {
    const part = this.#parts.pop();
    this.#throws = 0;
    if (part !== undefined && part.from + entries < part.to)
      this.#parts.push({ from: part.from + entries, to: part.to });
  }

  /** The part threw. `poison` when its one entry is to be given up; `again` after `throws` failed attempts at it. */
  threw(): { readonly kind: 'split' | 'poison' } | { readonly kind: 'again'; readonly throws: number } {
    const part = this.next();
    if (part && part.to - part.from > 1) {
      const middle = (part.from + part.to) >> 1;
      this.#parts.pop();
      this.#parts.push({ from: middle, to: part.to }, { from: part.from, to: middle });
      return { kind: 'split' };
    }
    this.#throws++;
    return this.#throws >= POISON_ATTEMPTS ? { kind: 'poison' } : { kind: 'again', throws: this.#throws };
  }
}
