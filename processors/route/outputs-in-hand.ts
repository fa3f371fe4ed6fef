/** Characters of outputs that a process holds for events that are not done with, over all partitions. */
const IN_HAND_CHARS = 32 * 1024 * 1024;

/** Characters of outputs after which one call of the sandbox ends. */
const CALL_CHARS = 4 * 1024 * 1024;

/** The entry at work that outputs are held for. Outputs that arrive after it is done are dropped. */
export interface Holder {
  isDone: boolean;
}

/**
 * What transformations returned for events whose other rules are still at work. While it is more than the bound only
 * one event goes on, until it is done; so memory is bounded whatever all programs return at once, and something always
 * moves.
 */
export class OutputsInHand {
  readonly #limit: number;
  readonly #held = new Map<Holder, number>();
  #chars = 0;
  #first: Holder | undefined;
  #changed = Promise.withResolvers<void>();

  constructor(limit = IN_HAND_CHARS) {
    this.#limit = limit;
  }

  get isFull(): boolean {
    return this.#chars >= this.#limit;
  }

  /** Whether more may be made for the event; the first that asks while all is full may, until it is released. */
  mayRun(holder: Holder): boolean {
    if (!this.isFull) return true;
    this.#first ??= holder;
    return this.#first === holder;
  }

  /** The event that may go on while all is full. */
  isFirst(holder: Holder): boolean {
    return this.#first === holder;
  }

  hold(holder: Holder, chars: number): void {
    if (holder.isDone) return;
    this.#chars += chars;
    this.#held.set(holder, (this.#held.get(holder) ?? 0) + chars);
  }

  /** The event is done, or dropped: what was held for it is the window's from now on. */
  release(holder: Holder): void {
    holder.isDone = true;
    this.#chars -= this.#held.get(holder) ?? 0;
    this.#held.delete(holder);
    if (this.#first === holder) this.#first = undefined;
    this.#wake();
  }

  /** Resolves when something was released. */
  changed(): Promise<void> {
    return this.#changed.promise;
  }

  /** Follows one call of the sandbox: what it returned counts from when it arrives. `alone`: for the first event. */
  call(alone: boolean): CallInHand {
    let arrived = 0;
    return {
      add: (chars) => {
        arrived += chars;
        this.#chars += chars;
      },
      hasRoom: () => alone || (!this.isFull && arrived < CALL_CHARS),
      over: () => {
        const wasFull = this.isFull;
        this.#chars -= arrived;
        arrived = 0;
        if (wasFull && !this.isFull) this.#wake();
      },
    };
  }

  #wake(): void {
    const { resolve } = this.#changed;
    this.#changed = Promise.withResolvers();
    resolve();
  }
}

export interface CallInHand {
  add(chars: number): void;
  hasRoom(): boolean;
  /** Its outputs have found their holders. */
  over(): void;
}
