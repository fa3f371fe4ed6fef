import { Overloaded, Unavailable } from '@tributary/core';

export interface SharedCallsOptions<Item, Answer> {
  /** Sends one request; resolves to its answers in the order of the items. */
  readonly send: (items: readonly Item[]) => Promise<readonly Answer[]>;
  /** Most concurrent requests. */
  readonly inFlight: number;
  /** Least number of items for which a further request starts while one is in flight; fewer wait for its end. */
  readonly minConcurrentItems: number;
  /** After how long a request in flight counts as slow, ms: then any number of items may start another one. */
  readonly slowAfterMs: number;
  readonly maxItems: number;
  /** Largest request by `sizeOf`; a larger item is sent alone. */
  readonly maxSize: number;
  readonly sizeOf: (item: Item) => number;
  /** Largest queue by `sizeOf`; a call beyond it is refused. */
  readonly maxQueueSize: number;
}

interface QueuedItem<Item, Answer> {
  readonly item: Item;
  /** By `performance.now()`. */
  readonly queuedAt: number;
  readonly answer: (answer: Answer) => void;
  readonly fail: (error: unknown) => void;
}

/**
 * Combines the items of many callers into one request: items of one turn of the event loop, or that come while a request
 * is in flight, share the next one. So there is no delay without load, and requests grow with it. A request starts at the
 * end of the turn, because callers that were just answered call again in it. Otherwise callers would fall apart into
 * groups with small requests of their own, and a small request costs the engine nearly as much as a large one.
 */
export class SharedRequests<Item, Answer> {
  readonly #options: SharedCallsOptions<Item, Answer>;
  #queue: QueuedItem<Item, Answer>[] = [];
  #queueSize = 0;
  #inFlight = 0;
  /** Start of the youngest request, by `performance.now()`. */
  #startedAt = 0;
  #scheduled = false;
  /** Fires when the youngest request becomes slow. */
  #slowTimer: NodeJS.Timeout | undefined;

  constructor(options: SharedCallsOptions<Item, Answer>) {
    this.#options = options;
  }

  /**
   * The answers to all items, in their order. Rejects with the first failure among them, once all are settled; with
   * `Overloaded`, and nothing sent, when the queue is full.
   */
  call(items: readonly Item[]): Promise<readonly Answer[]> {
    if (items.length === 0) return Promise.resolve([]);
    const { sizeOf, maxQueueSize } = this.#options;
    const size = items.reduce((sum, item) => sum + sizeOf(item), 0);
    if (this.#queueSize > 0 && this.#queueSize + size > maxQueueSize)
      return Promise.reject(new Overloaded('too many calls wait for Elasticsearch'));
    this.#queueSize += size;
    const queuedAt = performance.now();
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
        this.#queue.push({
          item,
          queuedAt,
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

  /** Whether nothing is queued or under way. */
  get isIdle(): boolean {
    return this.#queue.length === 0 && this.#inFlight === 0;
  }

  /** Starts requests at the end of this turn. */
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
      this.#inFlight++;
      this.#startedAt = performance.now();
      void this.#send(request).finally(() => {
        this.#inFlight--;
        if (this.#inFlight === 0) clearTimeout(this.#slowTimer);
        this.#schedule();
      });
      this.#startWhenSlow();
    }
  }

  /** A timer counts from the start of the turn that sets it, so it may fire early; then it is set again for the rest. */
  #startWhenSlow(): void {
    clearTimeout(this.#slowTimer);
    const untilSlowMs = this.#untilSlowMs;
    if (untilSlowMs <= 0) this.#schedule();
    else this.#slowTimer = setTimeout(() => this.#startWhenSlow(), untilSlowMs);
  }

  /** Time until the youngest request is slow, ms; 0 or less once it is. */
  get #untilSlowMs(): number {
    return this.#startedAt + this.#options.slowAfterMs - performance.now();
  }

  get #mayStart(): boolean {
    const { inFlight, minConcurrentItems } = this.#options;
    const isAlone = this.#inFlight === 0 || this.#untilSlowMs <= 0;
    const enough = isAlone ? 1 : minConcurrentItems;
    return this.#inFlight < inFlight && this.#queue.length >= enough;
  }

  #next(): readonly QueuedItem<Item, Answer>[] {
    const { maxItems, maxSize, sizeOf } = this.#options;
    let [count, size] = [0, 0];
    for (const { item } of this.#queue) {
      size += sizeOf(item);
      if (count > 0 && (count >= maxItems || size > maxSize)) break;
      count++;
    }
    return this.#dequeued(this.#queue.splice(0, count));
  }

  #dequeued(items: readonly QueuedItem<Item, Answer>[]): readonly QueuedItem<Item, Answer>[] {
    for (const { item } of items) this.#queueSize -= this.#options.sizeOf(item);
    return items;
  }

  /** Dequeues the items that were queued before the time. The queue is in order of arrival. */
  #queuedBefore(time: number): readonly QueuedItem<Item, Answer>[] {
    const later = this.#queue.findIndex(({ queuedAt }) => queuedAt >= time);
    return this.#dequeued(this.#queue.splice(0, later < 0 ? this.#queue.length : later));
  }

  async #send(request: readonly QueuedItem<Item, Answer>[]): Promise<void> {
    const startedAt = this.#startedAt;
    try {
      const answers = await this.#options.send(request.map(({ item }) => item));
      for (const [index, { answer }] of request.entries()) answer(answers[index] as Answer);
    } catch (error) {
      // The engine does not answer: items queued before the request fail as well, instead of waiting for another timeout.
      const others = error instanceof Unavailable ? this.#queuedBefore(startedAt) : [];
      for (const { fail } of [...request, ...others]) fail(error);
    }
  }
}
