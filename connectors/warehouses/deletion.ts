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

/** What names people in rows of a table: a column with one of these ids; with `type`, where the row is of that type. */
interface Naming {
  readonly column: string;
  readonly ids: readonly string[];
  readonly type?: string;
}

/** Discards have message ids in the place of ids of people, but for those of profiles. */
export function namesIn(
  table: string,
  { user_ids, anonymous_ids, ucids }: PeopleToDelete,
): readonly Naming[] {
  const ofProfiles = { column: 'ucid', ids: ucids };
  switch (table) {
    case DISCARDS_TABLE:
      return [{ column: 'message_id', ids: ucids }];
    case USERS_TABLE:
      return [ofProfiles, { column: 'id', ids: user_ids }];
    case IDENTITY_MAP_TABLE:
      return [
        ofProfiles,
        { column: 'value', ids: user_ids, type: 'user_id' },
        { column: 'value', ids: anonymous_ids, type: 'anonymous_id' },
      ];
    default:
      return [
        { column: 'user_id', ids: user_ids },
        { column: 'anonymous_id', ids: anonymous_ids },
        // Of an alias: that of a user or a device.
        { column: 'previous_id', ids: [...anonymous_ids, ...user_ids] },
      ];
  }
}

/** What the JSON of discarded whole events and rows of people has: single values are found by the ids of their events. */
export function textsNaming({ user_ids, anonymous_ids }: PeopleToDelete): readonly string[] {
  return [
    ...user_ids.map((id) => `"user_id":${JSON.stringify(id)}`),
    ...anonymous_ids.map((id) => `"anonymous_id":${JSON.stringify(id)}`),
  ];
}

async function deletePart(
  sql: DeletionSql,
  described: ReadonlyMap<string, TableColumns>,
  people: PeopleToDelete,
  deleted: Record<string, number>,
): Promise<void> {
  const { quoted, contains = (column, text) => `position(${text} in ${column}) > 0` } = sql;
  /** `add` takes a value of the condition, and returns its place. */
  const remove = async (table: string, condition: (add: (value: string) => string) => string) => {
    const values: string[] = [];
    const whose = condition((value) => sql.place(value, values.push(value)));
    deleted[table] = (deleted[table] ?? 0) + (await sql.remove(table, whose, values));
  };
  const isOneOf = (column: string, ids: readonly string[], add: (value: string) => string) =>
    ids.length === 0 ? '1 = 0' : `${sql.asText(quoted(column))} in (${ids.map(add).join(', ')})`;
  for (const [table, columns] of described) {
    if (NOT_OF_EVENTS.has(table)) continue;
    for (const { column, ids } of namesIn(table, people).filter((one) => columns.has(one.column))) {
      if (described.has(DISCARDS_TABLE) && columns.has('id'))
        await remove(
          DISCARDS_TABLE,
          (add) => `${quoted('message_id')} in (
            select regexp_replace(${sql.asText(quoted('id'))}, '^development:', '')
            from ${sql.table(table)} where ${isOneOf(column, ids, add)})`,
        );
      await remove(table, (add) => isOneOf(column, ids, add));
    }
  }
  for (const table of NOT_OF_EVENTS) {
    if (!described.has(table)) continue;
    await remove(table, (add) => {
      const isTheirs = namesIn(table, people).map(({ column, ids, type }) => {
        const isNamed = isOneOf(column, ids, add);
        return type === undefined ? isNamed : `(${quoted('type')} = '${type}' and ${isNamed})`;
      });
      if (table === DISCARDS_TABLE) {
        const isWhole = textsNaming(people).map((text) => contains(quoted('value'), add(text)));
        isTheirs.push(`(${quoted('column_name')} is null and (${['1 = 0', ...isWhole].join(' or ')}))`);
      }
      return isTheirs.join(' or ');
    });
  }
}

/** `asText` of engines with a bound on texts. */
export const asVarchar = (column: string) => `cast(${column} as varchar(65535))`;
