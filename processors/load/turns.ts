import { TurnQueue } from '@tributary/core';

/**
 * Bounds the batches that are held in memory at a time. Organizations take turns, so one with many warehouses does not
 * keep those of others waiting.
 */
export class LoadTurns {
  readonly #queue = new TurnQueue<() => void>();
  #free: number;

  constructor(concurrency: number) {
    this.#free = concurrency;
  }

  async run<T>(owner: string, work: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((resolve) => this.#queue.add(owner, resolve));
    try {
      return await work();
    } finally {
      const next = this.#queue.take();
      if (next === undefined) this.#free += 1;
      else next.item();
    }
  }
}
