import {
  DISCARDS_TABLE,
  IDENTITY_MAP_TABLE,
  type PeopleToDelete,
  type TableColumns,
  USERS_TABLE,
} from '@tributary/core';
import { NOT_OF_EVENTS } from './tables.ts';

/** What differs between SQL engines. */
export interface DeletionSql {
  /** A table, qualified. */
  table(name: string): string;
  quoted(column: string): string;
  /** A value in a condition: its place, of which 1 is the first, or the value itself. */
  place(value: string, index: number): string;
  /** A column as text: a person may have given it another type. */
  asText(column: string): string;
  /** Whether a text is in a column; absent: by `position`. */
  contains?(column: string, text: string): string;
  /** Deletes the rows of a table for which a condition with these values holds; resolves with their number. */
  remove(table: string, condition: string, values: readonly string[]): Promise<number>;
}

/**
 * People that one statement names, by any of their ids: engines bound its parameters (10,000 in BigQuery, of which an id may need
 * two), its length and the terms of a condition.
 */
const MAX_NAMED = 500;

/** People in the parts that statements may name. */
export function* partsOf({ user_ids, anonymous_ids, ucids }: PeopleToDelete): Iterable<PeopleToDelete> {
  const length = Math.max(user_ids.length, anonymous_ids.length, ucids.length);
  for (let at = 0; at < length; at += MAX_NAMED) {
    const part = (ids: readonly string[]) => ids.slice(at, at + MAX_NAMED);
    yield { user_ids: part(user_ids), anonymous_ids: part(anonymous_ids), ucids: part(ucids) };
  }
}

/** Deletes the rows of people from the tables of a loader, and what was discarded of them; rows by table. */
export async function deletePeople(
  sql: DeletionSql,
  described: ReadonlyMap<string, TableColumns>,
  people: PeopleToDelete,
): Promise<Readonly<Record<string, number>>> {
  const deleted: Record<string, number> = {};
  for (const part of partsOf(people)) await deletePart(sql, described, part, deleted);
  return deleted;
}

async function deletePart(
  sql: DeletionSql,
  described: ReadonlyMap<string, TableColumns>,
  { user_ids, anonymous_ids, ucids }: PeopleToDelete,
  deleted: Record<string, number>,
): Promise<void> {
  const remove = async (table: string, condition: (values: Values) => string) => {
    const values = new Values(sql);
    const whose = condition(values);
    deleted[table] = (deleted[table] ?? 0) + (await sql.remove(table, whose, values.all));
  };
  const devicesAndUsers = [...anonymous_ids, ...user_ids];
  const hasDiscards = described.has(DISCARDS_TABLE);
  for (const [table, columns] of described) {
    if (NOT_OF_EVENTS.has(table)) continue;
    for (const { column, isAny } of PEOPLE.filter((one) => columns.has(one.column))) {
      const whose = isAny ? devicesAndUsers : column === 'user_id' ? user_ids : anonymous_ids;
      if (hasDiscards && columns.has('id'))
        await remove(
          DISCARDS_TABLE,
          (values) => `${sql.quoted('message_id')} in (
            select regexp_replace(${sql.asText(sql.quoted('id'))}, '^development:', '')
            from ${sql.table(table)} where ${values.have(column, whose)})`,
        );
      await remove(table, (values) => values.have(column, whose));
    }
  }
  if (hasDiscards) {
    // Whole events and rows, by the text of their JSON: single values were found by the ids of their events.
    const said = [
      ...user_ids.map((id) => `"user_id":${JSON.stringify(id)}`),
      ...anonymous_ids.map((id) => `"anonymous_id":${JSON.stringify(id)}`),
    ];
    const { contains = (column, text) => `position(${text} in ${column}) > 0` } = sql;
    await remove(DISCARDS_TABLE, (values) => {
      const ofProfiles = values.have('message_id', ucids);
      const isWhole = said.map((text) => contains(sql.quoted('value'), values.add(text)));
      return `${ofProfiles} or (${sql.quoted('column_name')} is null and (${['1 = 0', ...isWhole].join(' or ')}))`;
    });
  }
  if (described.has(USERS_TABLE))
    await remove(USERS_TABLE, (values) => `${values.have('ucid', ucids)} or ${values.have('id', user_ids)}`);
  if (described.has(IDENTITY_MAP_TABLE))
    await remove(IDENTITY_MAP_TABLE, (values) => {
      const isNamed = (type: string, named: readonly string[]) =>
        `(${sql.quoted('type')} = '${type}' and ${values.have('value', named)})`;
      return [
        values.have('ucid', ucids),
        isNamed('user_id', user_ids),
        isNamed('anonymous_id', anonymous_ids),
      ].join(' or ');
    });
}

/** Columns that name a person. The previous id of an alias is that of a user or a device. */
const PEOPLE: readonly { readonly column: string; readonly isAny?: true }[] = [
  { column: 'user_id' },
  { column: 'anonymous_id' },
  { column: 'previous_id', isAny: true },
];

/** `asText` of engines with a bound on texts. */
export const asVarchar = (column: string) => `cast(${column} as varchar(65535))`;

/** The values of one statement, in the order of their places in it. */
class Values {
  readonly all: string[] = [];
  readonly #sql: DeletionSql;

  constructor(sql: DeletionSql) {
    this.#sql = sql;
  }

  /** The place of a further value. */
  add(value: string): string {
    return this.#sql.place(value, this.all.push(value));
  }

  /** Whether a column has one of some texts. */
  have(column: string, texts: readonly string[]): string {
    if (texts.length === 0) return '1 = 0';
    return `${this.#sql.asText(this.#sql.quoted(column))} in (${texts.map((text) => this.add(text)).join(', ')})`;
  }
}
