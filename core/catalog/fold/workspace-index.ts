import type { EventType } from '../../event/event.ts';
import type { WorkspaceEntities, WorkspaceEntityKind } from '../catalog.ts';
import type { Contract, Rule, WriteKey } from '../entities.ts';
import { type CountedListing, GroupedOrder } from './creation-order.ts';

type Tables = { readonly [K in WorkspaceEntityKind]: Map<string, WorkspaceEntities[K]> };
type Orders = { readonly [K in WorkspaceEntityKind]: GroupedOrder<WorkspaceEntities[K]> };

/** The groups that entities of a kind are listed and counted by. */
const GROUPS: { readonly [K in WorkspaceEntityKind]: (entity: WorkspaceEntities[K]) => string } = {
  api_key: ({ status }) => status,
  write_key: ({ status }) => status,
  source: ({ status }) => status,
  contract: ({ status }) => status,
  transformation: ({ status }) => status,
  destination: ({ enabled }) => (enabled ? 'enabled' : 'disabled'),
  rule: ({ enabled }) => (enabled ? 'enabled' : 'disabled'),
  replay: ({ status }) => status,
};

/** Kinds whose size the workspace chooses; of the others the number is bound enough. */
const WEIGHED: ReadonlySet<WorkspaceEntityKind> = new Set([
  'contract',
  'transformation',
  'destination',
  'rule',
]);

/** Characters of JSON that an entity counts for; 0 where it is not weighed. */
export function charactersOf<K extends WorkspaceEntityKind>(kind: K, entity: WorkspaceEntities[K]): number {
  return WEIGHED.has(kind) ? JSON.stringify(entity).length : 0;
}

/** Ids that an entity at work names: what has one of them stays. */
function namesOf<K extends WorkspaceEntityKind>(kind: K, entity: WorkspaceEntities[K]): readonly string[] {
  if (kind === 'rule') {
    const { enabled, destination_id, transformation_id } = entity as Rule;
    return enabled ? [destination_id, ...(transformation_id === null ? [] : [transformation_id])] : [];
  }
  if (kind !== 'write_key') return [];
  const { status, source_id } = entity as WriteKey;
  return status === 'active' && source_id !== null ? [source_id] : [];
}

/** The entities of one workspace, with the orders and sums that are derived from them. */
export class WorkspaceIndex {
  readonly tables: Tables = {
    api_key: new Map(),
    write_key: new Map(),
    source: new Map(),
    contract: new Map(),
    transformation: new Map(),
    destination: new Map(),
    rule: new Map(),
    replay: new Map(),
  };
  readonly deleted = new Set<string>();
  readonly eras = new Map<string, ContractEra[]>();
  readonly #orders: Orders = {
    api_key: new GroupedOrder(GROUPS.api_key),
    write_key: new GroupedOrder(GROUPS.write_key),
    source: new GroupedOrder(GROUPS.source),
    contract: new GroupedOrder(GROUPS.contract),
    transformation: new GroupedOrder(GROUPS.transformation),
    destination: new GroupedOrder(GROUPS.destination),
    rule: new GroupedOrder(GROUPS.rule),
    replay: new GroupedOrder(GROUPS.replay),
  };
  /** Characters of the weighed entities, by id. */
  readonly #characters = new Map<string, number>();
  /** How many enabled rules or active write keys name an id. */
  readonly #named = new Map<string, number>();
  #enabledRules: readonly Rule[] | undefined;

  put<K extends WorkspaceEntityKind>(kind: K, entity: WorkspaceEntities[K]): void {
    const table: Map<string, WorkspaceEntities[K]> = this.tables[kind];
    const before = table.get(entity.id);
    this.#orders[kind].put(entity, before);
    if (before !== undefined) this.#countNames(kind, before, -1);
    this.#countNames(kind, entity, 1);
    table.set(entity.id, entity);
    if (kind === 'rule') this.#enabledRules = undefined;
  }

  /** False where there is none. */
  remove(kind: WorkspaceEntityKind, id: string): boolean {
    const removed = this.#remove(kind, id);
    if (kind === 'rule') this.#enabledRules = undefined;
    return removed;
  }

  /** The entities of a kind, or one group of them: of rules and destinations `enabled`, of others a status. */
  listing<K extends WorkspaceEntityKind>(kind: K, group?: string): CountedListing<WorkspaceEntities[K]> {
    const order: GroupedOrder<WorkspaceEntities[K]> = this.#orders[kind];
    return group === undefined ? order.all : order.group(group);
  }

  /** True when an enabled rule or an active write key names the id. */
  isNamed(id: string): boolean {
    return this.#named.has(id);
  }

  /** Oldest first. */
  get enabledRules(): readonly Rule[] {
    this.#enabledRules ??= [...this.#orders.rule.group('enabled').newestFirst()].reverse();
    return this.#enabledRules;
  }

  /** Notes what an entity counts for now; answers by how much that is more than before. */
  weigh(id: string, characters: number): number {
    const before = this.#characters.get(id) ?? 0;
    if (characters > 0) this.#characters.set(id, characters);
    else this.#characters.delete(id);
    return characters - before;
  }

  #remove<K extends WorkspaceEntityKind>(kind: K, id: string): boolean {
    const table: Map<string, WorkspaceEntities[K]> = this.tables[kind];
    const entity = table.get(id);
    if (entity === undefined) return false;
    this.#orders[kind].remove(entity);
    this.#countNames(kind, entity, -1);
    table.delete(id);
    this.deleted.add(`${kind}:${id}`);
    return true;
  }

  #countNames<K extends WorkspaceEntityKind>(kind: K, entity: WorkspaceEntities[K], by: 1 | -1): void {
    for (const id of namesOf(kind, entity)) {
      const count = (this.#named.get(id) ?? 0) + by;
      if (count > 0) this.#named.set(id, count);
      else this.#named.delete(id);
    }
  }
}

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
