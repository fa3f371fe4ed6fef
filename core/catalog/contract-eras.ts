import type { EventType } from '../event/event.ts';
import type { Contract } from './entities.ts';

/** One contract pair's past: what was active from which catalog position on. */
export interface ContractEra {
  readonly from: number;
  /** When the fact that began it was made, ISO 8601. */
  readonly at: string;
  readonly contract: Contract | undefined;
}

/** What eras are kept by: the type and name of the events that are judged. */
export function pairKey(type: EventType, name: string): string {
  return `${type}:${name}`;
}

/** The contract that judges at a catalog position: of the eras, which begin in order, the last that has begun. */
export function eraAt(eras: readonly ContractEra[] | undefined, position: number): Contract | undefined {
  const newest = eras?.at(-1);
  if (eras === undefined || newest === undefined || newest.from <= position) return newest?.contract;
  let [low, high] = [0, eras.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((eras[middle]?.from ?? 0) <= position) low = middle + 1;
    else high = middle;
  }
  return eras[low - 1]?.contract;
}

/** The versions of contracts in these eras that are not the newest of theirs. */
export function* pastContracts(
  eras: Iterable<readonly ContractEra[]>,
  newest: ReadonlyMap<string, Contract>,
): Generator<Contract> {
  for (const list of eras)
    for (const { contract } of list)
      if (contract !== undefined && newest.get(contract.id) !== contract) yield contract;
}

/** The eras that something may still be judged by: without those that another followed before `before` (ISO 8601). */
export function withoutEras(list: ContractEra[], before: string): ContractEra[] {
  let gone = 0;
  while ((list[gone + 1]?.at ?? before) < before) gone++;
  const [first, ...rest] = list.slice(gone);
  return gone > 0 && first !== undefined ? [{ ...first, from: 0 }, ...rest] : list;
}
