import { Unavailable } from '@tributary/core';

/** Writes of one lane that are carried out together at most. */
const LONGEST_GROUP = 256;

interface Waiting<Item, Outcome> {
  readonly item: Item;
  readonly resolve: (outcome: Outcome) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Carries out items of the same key one group after the other, so that callers in this process that want the same never
 * compete. What comes while a group is carried out is the next one.
 */
export class Lanes<Item, Outcome> {
  readonly #work: (items: readonly [Item, ...Item[]]) => Promise<readonly Outcome[]>;
  readonly #lanes = new Map<string, Waiting<Item, Outcome>[]>();

  /** `work`: outcomes of the first items of a list, of one at least. */
  constructor(work: (items: readonly [Item, ...Item[]]) => Promise<readonly Outcome[]>) {
    this.#work = work;
  }

  do(key: string, item: Item): Promise<Outcome> {
    return new Promise((resolve, reject) => {
      const waiting = { item, resolve, reject };
      const lane = this.#lanes.get(key);
      if (lane !== undefined) {
        lane.push(waiting);
        return;
      }
      const started = [waiting];
      this.#lanes.set(key, started);
      void this.#run(key, started);
    });
  }

  async #run(key: string, lane: Waiting<Item, Outcome>[]): Promise<void> {
    while (true) {
      const [first, ...rest] = lane.slice(0, LONGEST_GROUP);
      if (first === undefined) break;
      try {
        const outcomes = await this.#work([first.item, ...rest.map(({ item }) => item)]);
        const done = lane.splice(0, outcomes.length);
        for (const [index, { resolve }] of done.entries()) resolve(outcomes[index] as Outcome);
      } catch (error) {
        // Where nobody answers, all that wait hear it: each by itself would wait as long again.
        const failed = lane.splice(0, error instanceof Unavailable ? lane.length : 1);
        for (const { reject } of failed) reject(error);
      }
    }
    this.#lanes.delete(key);
  }
}
