export interface SharedCallsOptions<Item, Answer> {
  /** Carries out one request; its answers in the order of the items. */
  readonly send: (items: readonly Item[]) => Promise<readonly Answer[]>;
  /** Requests under way at once. */
  readonly inFlight: number;
  readonly maxItems: number;
  /** Of what `sizeOf` says, of one request; an item above it goes alone. */
  readonly maxSize: number;
  readonly sizeOf: (item: Item) => number;
}

interface Waiting<Item, Answer> {
  readonly item: Item;
  readonly answer: (answer: Answer) => void;
  readonly fail: (error: unknown) => void;
}

/**
 * Makes one request of what many callers ask for at the same time. There is no linger: what comes while requests are
 * under way goes with the next one, which makes requests larger as load grows.
 */
export class SharedCalls<Item, Answer> {
  readonly #options: SharedCallsOptions<Item, Answer>;
  #waiting: Waiting<Item, Answer>[] = [];
  #underWay = 0;
  #scheduled = false;

  constructor(options: SharedCallsOptions<Item, Answer>) {
    this.#options = options;
  }

  /** The answers to all items, in their order; rejects with the first failure among them, once all are settled. */
  call(items: readonly Item[]): Promise<readonly Answer[]> {
    if (items.length === 0) return Promise.resolve([]);
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
    if (this.#scheduled || this.#underWay >= this.#options.inFlight) return;
    this.#scheduled = true;
    queueMicrotask(() => {
      this.#scheduled = false;
      this.#start();
    });
  }

  #start(): void {
    while (this.#waiting.length > 0 && this.#underWay < this.#options.inFlight) {
      const request = this.#next();
      this.#underWay++;
      void this.#send(request).finally(() => {
        this.#underWay--;
        if (this.#waiting.length > 0) this.#schedule();
      });
    }
  }

  #next(): readonly Waiting<Item, Answer>[] {
    const { maxItems, maxSize, sizeOf } = this.#options;
    let [count, size] = [0, 0];
    for (const { item } of this.#waiting) {
      size += sizeOf(item);
      if (count > 0 && (count >= maxItems || size > maxSize)) break;
      count++;
    }
    return this.#waiting.splice(0, count);
  }

  async #send(request: readonly Waiting<Item, Answer>[]): Promise<void> {
    try {
      const answers = await this.#options.send(request.map(({ item }) => item));
      for (const [index, { answer }] of request.entries()) answer(answers[index] as Answer);
    } catch (error) {
      for (const { fail } of request) fail(error);
    }
  }
}
