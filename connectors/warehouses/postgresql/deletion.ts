import { DISCARDS_TABLE, IDENTITY_MAP_TABLE, type TableColumns, USERS_TABLE } from '@tributary/core';
import type { PoolClient } from 'pg';
import { quoted } from './sql.ts';

/** Whom a deletion is about. */
export interface People {
  readonly user_ids: readonly string[];
  readonly anonymous_ids: readonly string[];
  readonly ucids: readonly string[];
}

const NOT_OF_EVENTS = new Set([DISCARDS_TABLE, IDENTITY_MAP_TABLE, USERS_TABLE]);

/** Deletes the rows of people from the tables of a loader, and what was discarded of them; rows by table. */
export async function deletePeople(
  client: PoolClient,
  schema: string,
  described: ReadonlyMap<string, TableColumns>,
  { user_ids, anonymous_ids, ucids }: People,
): Promise<Readonly<Record<string, number>>> {
  const deleted: Record<string, number> = {};
  const of = (table: string) => `${schema}.${quoted(table)}`;
  const remove = async (table: string, condition: string, ...values: (readonly string[])[]) => {
    const { rowCount } = await client.query(`delete from ${of(table)} where ${condition}`, values);
    deleted[table] = (deleted[table] ?? 0) + (rowCount ?? 0);
  };
  const devicesAndUsers = [...anonymous_ids, ...user_ids];
  const hasDiscards = described.has(DISCARDS_TABLE);
  for (const [table, columns] of described) {
    if (NOT_OF_EVENTS.has(table)) continue;
    const isTheirs = PEOPLE.filter(({ column }) => columns.has(column));
    for (const { column, isAny } of isTheirs) {
      const whose = `${column}::text = any($1::text[])`;
      const values = isAny ? devicesAndUsers : column === 'user_id' ? user_ids : anonymous_ids;
      if (hasDiscards && columns.has('id')) {
        const ids = `select regexp_replace(id::text, '^development:', '') from ${of(table)} where ${whose}`;
        await remove(DISCARDS_TABLE, `message_id in (${ids})`, values);
      }
      await remove(table, whose, values);
    }
  }
  if (hasDiscards) {
    // Whole events and rows, by the text of their JSON: single values were found by the ids of their events.
    const said = [
      ...user_ids.map((id) => `"user_id":${JSON.stringify(id)}`),
      ...anonymous_ids.map((id) => `"anonymous_id":${JSON.stringify(id)}`),
    ];
    const isWhole = 'exists (select from unnest($2::text[]) as said where strpos(value, said) > 0)';
    await remove(
      DISCARDS_TABLE,
      `message_id = any($1::text[]) or (column_name is null and ${isWhole})`,
      ucids,
      said,
    );
  }
  if (described.has(USERS_TABLE))
    await remove(USERS_TABLE, 'ucid = any($1::text[]) or id = any($2::text[])', ucids, user_ids);
  if (described.has(IDENTITY_MAP_TABLE)) {
    const isNamed = (type: string, values: string) => `(type = '${type}' and value = any(${values}::text[]))`;
    const condition = `ucid = any($1::text[]) or ${isNamed('user_id', '$2')} or ${isNamed('anonymous_id', '$3')}`;
    await remove(IDENTITY_MAP_TABLE, condition, ucids, user_ids, anonymous_ids);
  }
  return deleted;
}

/** Columns that name a person. The previous id of an alias is that of a user or a device. */
const PEOPLE: readonly { readonly column: string; readonly isAny?: true }[] = [
  { column: 'user_id' },
  { column: 'anonymous_id' },
  { column: 'previous_id', isAny: true },
];
