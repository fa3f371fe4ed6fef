import { Overloaded, Unavailable } from '@tributary/core';

export interface SharedCallsOptions<Item, Answer> {
  /** Carries out one request; its answers in the order of the items. */
  readonly send: (items: readonly Item[]) => Promise<readonly Answer[]>;
  /** Requests under way at once, at most. */
  readonly inFlight: number;
  /** So many items go beside a request that is under way; fewer wait for its end, with what comes until then. */
  readonly besideItems: number;
  /** So long fewer wait at most, ms: a request that takes longer is not what they wait for. */
  readonly besideAfterMs: number;
  readonly maxItems: number;
  /** Of what `sizeOf` says, of one request; an item above it goes alone. */
  readonly maxSize: number;
  readonly sizeOf: (item: Item) => number;
  /** Of what waits for its request; a call that comes on top is refused. */
  readonly maxWaitingSize: number;
}

interface Waiting<Item, Answer> {
  readonly item: Item;
  /** By `performance.now()`. */
  readonly since: number;
  readonly answer: (answer: Answer) => void;
  readonly fail: (error: unknown) => void;
}

/**
 * Makes one request of what many callers ask for at the same time: what was asked for in one turn of the event loop, or
 * while a request is under way, goes with the next one. Nobody lingers, and requests grow with the load. A turn is
 * waited for because who was just answered asks again in it: without that callers fall apart into groups that go round
 * by themselves, and each small request costs the engine nearly as much as a large one.
 */
export class SharedCalls<Item, Answer> {
  readonly #options: SharedCallsOptions<Item, Answer>;
  #waiting: Waiting<Item, Answer>[] = [];
  #waitingSize = 0;
  #underWay = 0;
  /** When the youngest request began, by `performance.now()`. */
  #startedAt = 0;
  #scheduled = false;
  /** Fires when the youngest request takes long. */
  #late: NodeJS.Timeout | undefined;

  constructor(options: SharedCallsOptions<Item, Answer>) {
    this.#options = options;
  }

  /**
   * The answers to all items, in their order; rejects with the first failure among them, once all are settled, and with
   * `Overloaded`, none of them sent, while too much waits.
   */
  call(items: readonly Item[]): Promise<readonly Answer[]> {
    if (items.length === 0) return Promise.resolve([]);
    const { sizeOf, maxWaitingSize } = this.#options;
    const size = items.reduce((sum, item) => sum + sizeOf(item), 0);
    if (this.#waitingSize > 0 && this.#waitingSize + size > maxWaitingSize)
      return Promise.reject(new Overloaded('too many calls wait for Elasticsearch'));
    this.#waitingSize += size;
    const since = performance.now();
    return new Promise((resolve, reject) => {
      const answers = new Array<Answer>(items.length);
      let open = items.length;
      let failure: { readonly error: unknown } | undefined;
      const settle = () => {
        if (--open > 0) return;
        if (failure === undefined) resolve(answers);
        else reject(failure.error);
      };
      for (const [index, item] of items.entries()) {
        this.#waiting.push({
          item,
          since,
          answer: (answer) => {
            answers[index] = answer;
            settle();
          },
          fail: (error) => {
            failure ??= { error };
            settle();
          },
        });
      }
      this.#schedule();
    });
  }

  /** After the callers of this turn have asked. */
  #schedule(): void {
    if (this.#scheduled || !this.#mayStart) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      this.#start();
    });
  }

  #start(): void {
    while (this.#mayStart) {
      const request = this.#next();
      this.#underWay++;
      this.#startedAt = performance.now();
      void this.#send(request).finally(() => {
        this.#underWay--;
        if (this.#underWay === 0) clearTimeout(this.#late);
        this.#schedule();
      });
      this.#lookWhenLate();
    }
  }

  /** A timer counts from when the turn it is set in began, so it may fire before its time: then there is some left. */
  #lookWhenLate(): void {
    clearTimeout(this.#late);
    const leftMs = this.#leftMs;
    if (leftMs <= 0) this.#schedule();
    else this.#late = setTimeout(() => this.#lookWhenLate(), leftMs);
  }

  /** Until the youngest request takes long, ms; 0 or less once it does. */
  get #leftMs(): number {
    return this.#startedAt + this.#options.besideAfterMs - performance.now();
  }

  get #mayStart(): boolean {
    const { inFlight, besideItems } = this.#options;
    const isAlone = this.#underWay === 0 || this.#leftMs <= 0;
    const enough = isAlone ? 1 : besideItems;
    return this.#underWay < inFlight && this.#waiting.length >= enough;
  }

  #next(): readonly Waiting<Item, Answer>[] {
    const { maxItems, maxSize, sizeOf } = this.#options;
    let [count, size] = [0, 0];
    for (const { item } of this.#waiting) {
      size += sizeOf(item);
      if (count > 0 && (count >= maxItems || size > maxSize)) break;
      count++;
    }
    return this.#taken(this.#waiting.splice(0, count));
  }

  #taken(items: readonly Waiting<Item, Answer>[]): readonly Waiting<Item, Answer>[] {
    for (const { item } of items) this.#waitingSize -= this.#options.sizeOf(item);
    return items;
  }

  /** Takes those off the line; they stand in the order in which they came. */
  #waitingSince(time: number): readonly Waiting<Item, Answer>[] {
    const later = this.#waiting.findIndex(({ since }) => since >= time);
    return this.#taken(this.#waiting.splice(0, later < 0 ? this.#waiting.length : later));
  }

  async #send(request: readonly Waiting<Item, Answer>[]): Promise<void> {
    const startedAt = this.#startedAt;
    try {
      const answers = await this.#options.send(request.map(({ item }) => item));
      for (const [index, { answer }] of request.entries()) answer(answers[index] as Answer);
    } catch (error) {
      // Where nobody answers, who has waited since before it was asked hears it too, and does not wait as long again.
      const others = error instanceof Unavailable ? this.#waitingSince(startedAt) : [];
      for (const { fail } of [...request, ...others]) fail(error);
    }
  }
}
