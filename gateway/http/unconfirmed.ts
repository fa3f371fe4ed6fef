import { FairBudget, Overloaded, type Permit } from '@tributary/core';

/** Below the 64 MiB that logs and stores take before they refuse everybody. */
const MAX_BYTES = 48 * 1024 * 1024;
/** Nothing that was handed over can be ended, so enough is left for workspaces that come later. */
const LARGEST_SHARE = 1 / 2;

/** Bytes handed to a log or a store that are not confirmed yet, divided fairly between their owners. */
export class Unconfirmed {
  readonly #budget = new FairBudget({ capacity: MAX_BYTES, largestShare: LARGEST_SHARE });

  /** Counts `bytes` until they are released. `Overloaded`, and nothing counts, where the owner holds its share. */
  take(owners: readonly string[], bytes: number): Permit {
    const permit = this.#budget.open(owners);
    if (!permit.resize(bytes))
      throw new Overloaded(`${owners.join(' ')} waits for all it may to be made durable`);
    return permit;
  }
}
