import { isPast, parseBounds } from '@tributary/core';
import type { EntryBarrier } from '../../stage-runner/partition-loop.ts';
import type { Taken } from '../../stage-runner/work.ts';

export interface BoundsBarrierOptions {
  /** All visible records of the topic's partition below this offset are done by the stage, or not kept any more. */
  readonly reachedIn: (partition: number) => Promise<number>;
  /** Called after a wait, before the entry is dispatched. */
  readonly opened: () => Promise<void>;
}

/**
 * Holds back the entries of an added partition until the stage has done the earlier records of their keys, which are in
 * other partitions below the bounds that the entries carry. Reached positions are remembered.
 */
export class BoundsBarrier implements EntryBarrier {
  readonly #options: BoundsBarrierOptions;
  /** By partition. */
  readonly #reached = new Map<number, number>();

  constructor(options: BoundsBarrierOptions) {
    this.#options = options;
  }

  countOpen(waiting: readonly Taken[]): number {
    let passed: string | undefined;
    for (const [count, { bounds }] of waiting.entries()) {
      if (bounds === undefined || bounds === passed) continue;
      const parsed = parseBounds(bounds);
      if (parsed !== undefined && !isPast(parsed, this.#reached)) return count;
      passed = bounds;
    }
    return waiting.length;
  }

  async tryOpen({ bounds: text }: Taken): Promise<boolean> {
    const bounds = text === undefined ? undefined : parseBounds(text);
    if (bounds === undefined) return true;
    const reached = new Map<number, number>();
    for (const partition of bounds.keys()) reached.set(partition, await this.#options.reachedIn(partition));
    if (!isPast(bounds, reached)) return false;
    await this.#options.opened();
    for (const [partition, offset] of reached) this.#reached.set(partition, offset);
    return true;
  }
}
