import type { Contract } from '../catalog/entities.ts';
import { SharedCache } from '../limits/shared-cache.ts';

export interface CompiledContractsBounds {
  /** Contracts of one workspace kept at most. */
  readonly maxEach: number;
  /** Weight of the contracts of one workspace, and of all together, bytes. */
  readonly maxBytesEach: number;
  readonly maxBytes: number;
}

/**
 * A cache of compiled contracts, by the contract as an object that never changes. No workspace makes the contracts of a
 * lighter one compile again: see `SharedCache`.
 */
export class CompiledContracts<Compiled extends object> {
  readonly #maxBytesEach: number;
  readonly #weigh: (compiled: Compiled) => number;
  readonly #cache: SharedCache<Compiled, Contract>;

  /** `weigh`: bytes of heap of one compiled contract. */
  constructor(
    { maxEach, maxBytesEach, maxBytes }: CompiledContractsBounds,
    weigh: (compiled: Compiled) => number,
  ) {
    this.#maxBytesEach = maxBytesEach;
    this.#weigh = weigh;
    this.#cache = new SharedCache(maxBytes, { max: maxEach, maxWeight: maxBytesEach });
  }

  /** Weight of all kept contracts, bytes. */
  get bytes(): number {
    return this.#cache.weight;
  }

  get(contract: Contract): Compiled | undefined {
    return this.#cache.get(contract.workspace_id, contract);
  }

  /** A contract heavier than the share of its workspace counts as the whole share: it is kept, alone. */
  set(contract: Contract, compiled: Compiled): void {
    const weight = Math.min(Math.ceil(this.#weigh(compiled)), this.#maxBytesEach);
    this.#cache.add(contract.workspace_id, contract, compiled, weight);
  }
}
