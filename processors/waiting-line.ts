/** How many that left are kept at most until the line is cut, and what part of it. */
const CUT_FROM = 1_024;
const CUT_PART = 2;

/**
 * Who came first is first. To take the first costs the same however many wait, which a `Set` does not promise: it goes
 * over all that left before.
 */
export class WaitingLine<Waiter> {
  #line: Waiter[] = [];
  #head = 0;

  get size(): number {
    return this.#line.length - this.#head;
  }

  get first(): Waiter | undefined {
    return this.#line[this.#head];
  }

  join(waiter: Waiter): void {
    this.#line.push(waiter);
  }

  /** The first leaves. */
  shift(): void {
    this.#head++;
    if (this.#head >= CUT_FROM && this.#head * CUT_PART >= this.#line.length) this.#cut();
  }

  #cut(): void {
    this.#line = this.#line.slice(this.#head);
    this.#head = 0;
  }
}
