import type { EventType } from '../../event/event.ts';
import type { WorkspaceEntities, WorkspaceEntityKind } from '../catalog.ts';
import type { Contract, Rule, WriteKey } from '../entities.ts';
import { type CountedListing, type Created, GroupedOrder } from './creation-order.ts';

type Tables = { readonly [K in WorkspaceEntityKind]: Map<string, WorkspaceEntities[K]> };
type Orders = { readonly [K in WorkspaceEntityKind]: GroupedOrder<WorkspaceEntities[K]> };

/** The group by which entities of a kind are listed and counted. */
const GROUPS: { readonly [K in WorkspaceEntityKind]: (entity: WorkspaceEntities[K]) => string } = {
  api_key: ({ status }) => status,
  write_key: ({ status }) => status,
  source: ({ status }) => status,
  contract: ({ status }) => status,
  transformation: ({ status }) => status,
  destination: ({ enabled }) => (enabled ? 'enabled' : 'disabled'),
  rule: ({ enabled }) => (enabled ? 'enabled' : 'disabled'),
  replay: ({ status }) => status,
  alert: ({ enabled }) => (enabled ? 'enabled' : 'disabled'),
  warehouse_table: ({ destination_id }) => destination_id,
};

export const WORKSPACE_ENTITY_KINDS = Object.keys(GROUPS) as readonly WorkspaceEntityKind[];

function byKind<Values>(make: (kind: WorkspaceEntityKind) => unknown): Values {
  return Object.fromEntries(WORKSPACE_ENTITY_KINDS.map((kind) => [kind, make(kind)])) as Values;
}

/** Kinds with a size that the workspace chooses. The size of the others is bounded by their quota. */
const WEIGHED: ReadonlySet<WorkspaceEntityKind> = new Set([
  'contract',
  'transformation',
  'destination',
  'rule',
  'warehouse_table',
]);

/** The size of an entity in characters of JSON; 0 for kinds that are not weighed. */
export function charactersOf<K extends WorkspaceEntityKind>(kind: K, entity: WorkspaceEntities[K]): number {
  return WEIGHED.has(kind) ? JSON.stringify(entity).length : 0;
}

/** Ids that an active rule or key refers to: such entities cannot be deleted. */
function referencesOf<K extends WorkspaceEntityKind>(
  kind: K,
  entity: WorkspaceEntities[K],
): readonly string[] {
  if (kind === 'rule') {
    const { enabled, destination_id, transformation_id } = entity as Rule;
    return enabled ? [destination_id, ...(transformation_id === null ? [] : [transformation_id])] : [];
  }
  if (kind !== 'write_key') return [];
  const { status, source_id } = entity as WriteKey;
  return status === 'active' && source_id !== null ? [source_id] : [];
}

/** The entities of one workspace, with derived orders and sums. */
export class WorkspaceIndex {
  readonly tables = byKind<Tables>(() => new Map());
  readonly deleted = new Set<string>();
  readonly eras = new Map<string, ContractEra[]>();
  readonly #orders = byKind<Orders>((kind) => new GroupedOrder(GROUPS[kind] as (entity: Created) => string));
  /** Sizes of the weighed entities, by id. */
  readonly #characters = new Map<string, number>();
  /** Number of enabled rules or active write keys that refer to an id. */
  readonly #references = new Map<string, number>();
  #enabledRules: readonly Rule[] | undefined;

  put<K extends WorkspaceEntityKind>(kind: K, entity: WorkspaceEntities[K]): void {
    const table: Map<string, WorkspaceEntities[K]> = this.tables[kind];
    const before = table.get(entity.id);
    this.#orders[kind].put(entity, before);
    if (before !== undefined) this.#countReferences(kind, before, -1);
    this.#countReferences(kind, entity, 1);
    table.set(entity.id, entity);
    if (kind === 'rule') this.#enabledRules = undefined;
  }

  /** False where the entity does not exist. */
  remove(kind: WorkspaceEntityKind, id: string): boolean {
    const removed = this.#remove(kind, id);
    if (kind === 'rule') this.#enabledRules = undefined;
    return removed;
  }

  /** The entities of a kind in creation order, optionally one group: `enabled` or `disabled`, else a status. */
  listing<K extends WorkspaceEntityKind>(kind: K, group?: string): CountedListing<WorkspaceEntities[K]> {
    const order: GroupedOrder<WorkspaceEntities[K]> = this.#orders[kind];
    return group === undefined ? order.all : order.group(group);
  }

  /** True when an enabled rule or an active write key refers to the id. */
  isReferenced(id: string): boolean {
    return this.#references.has(id);
  }

  /** Oldest first. */
  get enabledRules(): readonly Rule[] {
    this.#enabledRules ??= [...this.#orders.rule.group('enabled').newestFirst()].reverse();
    return this.#enabledRules;
  }

  /** Stores the size of an entity and returns by how much it grew. */
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
    this.#countReferences(kind, entity, -1);
    table.delete(id);
    this.deleted.add(`${kind}:${id}`);
    return true;
  }

  #countReferences<K extends WorkspaceEntityKind>(kind: K, entity: WorkspaceEntities[K], by: 1 | -1): void {
    for (const id of referencesOf(kind, entity)) {
      const count = (this.#references.get(id) ?? 0) + by;
      if (count > 0) this.#references.set(id, count);
      else this.#references.delete(id);
    }
  }
}

/** One period in which the same contract (or none) was active for an event type and name. */
export interface ContractEra {
  readonly from: number;
  /** Time of the fact that began the era, ISO 8601. */
  readonly at: string;
  readonly contract: Contract | undefined;
}

/** The key of eras: type and name of the evaluated events. */
export function pairKey(type: EventType, name: string): string {
  return `${type}:${name}`;
}

/** The contract that applies at a catalog position: that of the last era that has begun. Eras are in order. */
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

/** Contract versions in these eras that are not the newest of their contract. */
export function* pastContracts(
  eras: Iterable<readonly ContractEra[]>,
  newest: ReadonlyMap<string, Contract>,
): Generator<Contract> {
  for (const list of eras)
    for (const { contract } of list)
      if (contract !== undefined && newest.get(contract.id) !== contract) yield contract;
}

/** Without the eras that ended before `before` (ISO 8601): no event is evaluated by them any more. */
export function withoutEras(list: ContractEra[], before: string): ContractEra[] {
  let ended = 0;
  while ((list[ended + 1]?.at ?? before) < before) ended++;
  const [first, ...rest] = list.slice(ended);
  return ended > 0 && first !== undefined ? [{ ...first, from: 0 }, ...rest] : list;
}
