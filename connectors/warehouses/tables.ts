import {
  type ColumnType,
  DISCARDS_TABLE,
  IDENTITY_MAP_TABLE,
  joinColumnTypes,
  type TableChange,
  type TableColumns,
  UNMAPPED_COLUMN,
  Unavailable,
  USERS_TABLE,
  type WarehouseBatch,
} from '@tributary/core';

/** The newest version of each profile that was loaded, also of those that are gone. */
export const VERSIONS = '_tributary_profiles';

/** Tables that are changed in one transaction, which has locks for some thousand tables and indexes only. */
export const MAX_ALTERED = 50;

/** Tables with rows of no event. */
export const NOT_OF_EVENTS: ReadonlySet<string> = new Set([DISCARDS_TABLE, IDENTITY_MAP_TABLE, USERS_TABLE]);

/** Whether a table has the columns that a loader gives all of its tables. */
export function isLoaded([table, columns]: readonly [string, TableColumns]): boolean {
  if (table === DISCARDS_TABLE || table === IDENTITY_MAP_TABLE) return true;
  return columns.has(UNMAPPED_COLUMN) && columns.has('loaded_at');
}

/** The column by which rows are known, in a table with it. */
export function keyOf(table: string, columns: { has(column: string): boolean }): string | undefined {
  const key = table === USERS_TABLE ? 'ucid' : 'id';
  return columns.has(key) ? key : undefined;
}

/** What of a change a table still needs, as it is described: another load may have made a column since, or widened it. */
export function neededChanges({ add, widen }: TableChange, described: TableColumns) {
  const missing = new Map<string, ColumnType>();
  const narrow = new Map<string, { readonly from: ColumnType; readonly to: ColumnType }>();
  for (const [column, to] of [...add, ...[...widen].map(([name, { to }]) => [name, to] as const)]) {
    const from = described.get(column);
    if (!described.has(column)) missing.set(column, to);
    else if (from !== undefined && from !== to && joinColumnTypes(from, to) === to)
      narrow.set(column, { from, to });
  }
  return { missing, narrow };
}

/** The tables of a batch whose columns were planned. */
export function plannedTables({ inserts, profiles }: WarehouseBatch) {
  return profiles === undefined ? inserts : [...inserts, profiles.users];
}

/**
 * A text column takes any value, in other words than ours: nothing is written that was planned for another type. `made` is the
 * type that a new column gets, for engines without a type of each.
 */
export function checkTypes(
  batch: WarehouseBatch,
  described: ReadonlyMap<string, TableColumns>,
  made: (column: string, type: ColumnType) => ColumnType = (_column, type) => type,
): void {
  for (const { table, columns } of plannedTables(batch))
    for (const [column, type] of columns) {
      const found = described.get(table)?.get(column);
      if (found !== type && found !== made(column, type))
        throw new Unavailable(`the column "${column}" of the table "${table}" was changed during the load`);
    }
}
