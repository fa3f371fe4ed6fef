interface Event {
  readonly at: number;
  readonly order: number;
  readonly run: () => void;
}

/** Time that advances only when no work is left, and seeded dice: the same seed gives the same run. */
export class VirtualTime {
  #now = 1_700_000_000_000;
  #order = 0;
  #state: number;
  /** A heap by `at`, then by `order`. */
  readonly #events: Event[] = [];

  constructor(seed: number) {
    this.#state = seed;
  }

  readonly now = (): number => Math.floor(this.#now);

  /** Below 1. */
  readonly random = (): number => {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let t = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };

  /** A whole number from 0 to below `bound`. */
  readonly below = (bound: number): number => Math.floor(this.random() * bound);

  readonly after = (ms: number, run: () => void): void => {
    const event = { at: this.#now + ms, order: this.#order++, run };
    const events = this.#events;
    let index = events.push(event) - 1;
    while (index > 0) {
      const parent = (index - 1) >> 1;
      const other = events[parent];
      if (other === undefined || !isBefore(event, other)) break;
      events[index] = other;
      index = parent;
    }
    events[index] = event;
  };

  readonly pause = (ms: number): Promise<void> => new Promise((resolve) => this.after(ms, resolve));

  /** Advances time until `work` is done. Fails when no event is left that could end it. */
  async run<T>(work: Promise<T>): Promise<T> {
    let ended = false;
    const watched = work.finally(() => {
      ended = true;
    });
    watched.catch(() => {});
    while (true) {
      await new Promise((resolve) => setImmediate(resolve));
      if (ended) return watched;
      const event = this.#next();
      if (event === undefined) throw new Error('the simulation stands still');
      this.#now = Math.max(this.#now, event.at);
      event.run();
    }
  }

  #next(): Event | undefined {
    const events = this.#events;
    const first = events[0];
    const last = events.pop();
    if (first === undefined || last === undefined || events.length === 0) return first;
    let index = 0;
    while (true) {
      let child = 2 * index + 1;
      const [left, right] = [events[child], events[child + 1]];
      if (left === undefined) break;
      let smaller = left;
      if (right !== undefined && isBefore(right, left)) [smaller, child] = [right, child + 1];
      if (!isBefore(smaller, last)) break;
      events[index] = smaller;
      index = child;
    }
    events[index] = last;
    return first;
  }
}

function isBefore(one: Event, other: Event): boolean {
  return one.at < other.at || (one.at === other.at && one.order < other.order);
}
