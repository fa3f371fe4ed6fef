import type { EventType } from '../event/event.ts';
import type { WorkspaceEntities, WorkspaceEntityKind } from './catalog.ts';
import type { Contract, Workspace } from './entities.ts';
import type { Table } from './fold/creation-order.ts';
import { CatalogState } from './fold/state.ts';
import type { ContractEra } from './fold/workspace-index.ts';

/** One part of a state as JSON: its table, its path in the table, and its value. */
export type CatalogRow =
  | readonly ['table', name: string, path: readonly string[], value?: unknown]
  | readonly ['workspace', Workspace]
  | readonly ['entity', WorkspaceEntityKind, WorkspaceEntities[WorkspaceEntityKind]]
  | readonly ['deleted', workspaceId: string, WorkspaceEntityKind, id: string]
  /**
   * The contract: its id where it is the current version, the whole contract where it was changed since, null where
   * none applies.
   */
  | readonly ['era', workspaceId: string, pair: string, from: number, at: string, Contract | string | null];

/**
 * A whole state as rows, in an order in which they can be read back. Later changes of the state do not change the
 * rows: entities are never changed in place.
 */
export function rowsOf(state: CatalogState): readonly CatalogRow[] {
  const rows: CatalogRow[] = [];
  for (const [name, table] of Object.entries(state.tables())) addTable(rows, name, [], table);
  for (const workspace of state.workspaces.values()) rows.push(['workspace', workspace]);
  for (const [workspaceId, { tables, deleted, eras }] of state.indexes) {
    for (const kind of Object.keys(tables) as WorkspaceEntityKind[])
      for (const entity of tables[kind].values()) rows.push(['entity', kind, entity]);
    for (const key of deleted) {
      const colon = key.indexOf(':');
      rows.push(['deleted', workspaceId, key.slice(0, colon) as WorkspaceEntityKind, key.slice(colon + 1)]);
    }
    for (const [pair, list] of eras)
      for (const { from, at, contract } of list) {
        const isCurrent = contract !== undefined && tables.contract.get(contract.id) === contract;
        rows.push(['era', workspaceId, pair, from, at, isCurrent ? contract.id : (contract ?? null)]);
      }
  }
  return rows;
}

function addTable(rows: CatalogRow[], name: string, path: readonly string[], table: Table): void {
  if (table instanceof Set) {
    for (const item of table) rows.push(['table', name, [...path, item]]);
    return;
  }
  for (const [key, value] of table) {
    if (value instanceof Map || value instanceof Set) addTable(rows, name, [...path, key], value);
    else rows.push(['table', name, [...path, key], value]);
  }
}

/** Builds a state from rows, in their order. Throws for a row that fits nowhere. */
export class RowsReader {
  readonly state = new CatalogState();
  readonly #tables: Readonly<Record<string, Table>> = this.state.tables();

  add(row: CatalogRow): void {
    switch (row[0]) {
      case 'table': {
        const [, name, path, value] = row;
        const table = this.#tables[name];
        if (table === undefined) throw new Error(`a state has no table ${name}`);
        putAt(table, path, row.length > 3 ? { value } : undefined);
        return;
      }
      case 'workspace':
        this.state.putWorkspace(row[1]);
        return;
      case 'entity':
        this.state.put(row[1], row[2]);
        return;
      case 'deleted':
        this.state.putDeleted(row[2], row[1], row[3]);
        return;
      case 'era':
        this.#addEra(row[1], row[2], { from: row[3], at: row[4] }, row[5]);
        return;
      default:
        throw new Error(`a state has no rows of kind ${String(row[0])}`);
    }
  }

  #addEra(
    workspaceId: string,
    pair: string,
    era: Omit<ContractEra, 'contract'>,
    applied: Contract | string | null,
  ): void {
    const contract =
      typeof applied === 'string'
        ? this.state.entity('contract', workspaceId, applied)
        : (applied ?? undefined);
    if (typeof applied === 'string' && contract === undefined)
      throw new Error(`there is no contract ${applied}`);
    const colon = pair.indexOf(':');
    const type = pair.slice(0, colon) as EventType;
    this.state.startEra(workspaceId, type, pair.slice(colon + 1), { ...era, contract });
  }
}

/** Sets a value at a path of keys; without a value, adds the last key to a set. */
function putAt(table: Table, path: readonly string[], leaf: { readonly value: unknown } | undefined): void {
  const [key, ...rest] = path;
  if (key === undefined) throw new Error('a row without a key');
  if (table instanceof Set) {
    table.add(key);
    return;
  }
  if (rest.length === 0) {
    if (leaf === undefined) throw new Error(`a row without a value at ${key}`);
    table.set(key, leaf.value);
    return;
  }
  const isSet = rest.length === 1 && leaf === undefined;
  const inner = table.get(key) ?? (isSet ? new Set<string>() : new Map<string, unknown>());
  if (!(inner instanceof Map || inner instanceof Set)) throw new Error(`no table at ${key}`);
  table.set(key, inner);
  putAt(inner, rest, leaf);
}
