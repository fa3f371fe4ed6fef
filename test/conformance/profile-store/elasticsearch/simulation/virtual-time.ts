import { Dice } from '../../../../chaos/dice.ts';

interface Event {
  readonly at: number;
  readonly run: () => void;
}

/** Time that advances only when no work is left, and seeded dice: the same seed gives the same run. */
export class VirtualTime {
  #now = 1_700_000_000_000;
  readonly #dice: Dice;
  /** By `at`; those of one time in the order in which they were added. */
  readonly #events: Event[] = [];

  constructor(seed: number) {
    this.#dice = new Dice(seed);
  }

  readonly now = (): number => Math.floor(this.#now);

  /** Below 1. */
  readonly random = (): number => this.#dice.roll();

  /** A whole number from 0 to below `bound`. */
  readonly below = (bound: number): number => Math.floor(this.random() * bound);

  readonly after = (ms: number, run: () => void): void => {
    const at = this.#now + ms;
    const before = this.#events.findLastIndex((other) => other.at <= at);
    this.#events.splice(before + 1, 0, { at, run });
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
      const event = this.#events.shift();
      if (event === undefined) throw new Error('the simulation stands still');
      this.#now = Math.max(this.#now, event.at);
      event.run();
    }
  }
}
