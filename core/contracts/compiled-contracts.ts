import { LRUCache } from 'lru-cache';
import type { Contract } from '../catalog/entities.ts';

export interface CompiledContractsBounds {
  /** Contracts of one workspace kept at most. */
  readonly maxEach: number;
  /** Weight of the contracts of one workspace, and of all together, bytes. */
  readonly maxBytesEach: number;
  readonly maxBytes: number;
}

/**
 * A cache of compiled contracts, by the contract as an object that never changes. A workspace that exceeds its share
 * evicts its own, the least recently used first; where all together exceed the bound, the heaviest workspace evicts one
 * of its own. So no workspace makes the contracts of a lighter one compile again.
 */
export class CompiledContracts<Compiled extends object> {
  readonly #bounds: CompiledContractsBounds;
  readonly #weigh: (compiled: Compiled) => number;
  readonly #workspaces = new Map<string, LRUCache<Contract, Compiled>>();

  /** `weigh`: bytes of heap of one compiled contract. */
  constructor(bounds: CompiledContractsBounds, weigh: (compiled: Compiled) => number) {
    this.#bounds = bounds;
    this.#weigh = weigh;
  }

  /** Weight of all kept contracts, bytes. */
  get bytes(): number {
    let sum = 0;
    for (const { calculatedSize } of this.#workspaces.values()) sum += calculatedSize;
    return sum;
  }

  get(contract: Contract): Compiled | undefined {
    return this.#workspaces.get(contract.workspace_id)?.get(contract);
  }

  /** A contract heavier than the share of its workspace counts as the whole share: it is kept, alone. */
  set(contract: Contract, compiled: Compiled): void {
    const { maxEach, maxBytesEach, maxBytes } = this.#bounds;
    let own = this.#workspaces.get(contract.workspace_id);
    if (own === undefined) {
      own = new LRUCache({ max: maxEach, maxSize: maxBytesEach });
      this.#workspaces.set(contract.workspace_id, own);
    }
    own.set(contract, compiled, { size: Math.min(Math.ceil(this.#weigh(compiled)), maxBytesEach) });
    while (this.bytes > maxBytes) this.#evictOne();
  }

  #evictOne(): void {
    let heaviest: [string, LRUCache<Contract, Compiled>] | undefined;
    for (const entry of this.#workspaces)
      if (heaviest === undefined || entry[1].calculatedSize > heaviest[1].calculatedSize) heaviest = entry;
    if (heaviest === undefined) return;
    const [workspaceId, own] = heaviest;
    own.pop();
    if (own.size === 0) this.#workspaces.delete(workspaceId);
  }
}
