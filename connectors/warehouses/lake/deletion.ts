import { DISCARDS_TABLE, IDENTITY_MAP_TABLE, type PeopleToDelete, USERS_TABLE } from '@tributary/core';
import type { Cell } from './cells.ts';
import type { DataFile, LakeTransaction } from './format.ts';
import type { Rows } from './parquet.ts';

/** Whether a row of a table goes. */
type IsTheirs = (rows: Rows, at: number) => boolean;

const NOT_OF_EVENTS = new Set([DISCARDS_TABLE, IDENTITY_MAP_TABLE, USERS_TABLE]);

export function isOfEvents(table: string): boolean {
  return !NOT_OF_EVENTS.has(table);
}

const text = (rows: Rows, column: string, at: number): Cell => rows.cells.get(column)?.[at] ?? null;

function isIn(values: ReadonlySet<string>, cell: Cell): boolean {
  return typeof cell === 'string' && values.has(cell);
}

/** Rows of events name people in three columns; the previous id of an alias is that of a user or a device. */
export function eventsOf({ user_ids, anonymous_ids }: PeopleToDelete): IsTheirs {
  const [users, devices] = [new Set(user_ids), new Set(anonymous_ids)];
  const any = new Set([...user_ids, ...anonymous_ids]);
  return (rows, at) =>
    isIn(users, text(rows, 'user_id', at)) ||
    isIn(devices, text(rows, 'anonymous_id', at)) ||
    isIn(any, text(rows, 'previous_id', at));
}

/** The message ids of events of people in a file. */
export async function messageIdsIn(
  transaction: LakeTransaction,
  table: string,
  file: DataFile,
  people: PeopleToDelete,
): Promise<readonly string[]> {
  const isTheirs = eventsOf(people);
  const columns = ['id', 'user_id', 'anonymous_id', 'previous_id'];
  const ids: string[] = [];
  for await (const rows of transaction.rows(table, file, { columns }))
    for (let at = 0; at < rows.count; at++)
      if (isTheirs(rows, at)) ids.push(String(text(rows, 'id', at)).replace(/^development:/, ''));
  return ids;
}

/** What was discarded of their events, and of whole events and rows those whose JSON names them. */
export function discardsOf(
  { user_ids, anonymous_ids, ucids }: PeopleToDelete,
  messageIds: ReadonlySet<string>,
): IsTheirs {
  const ids = new Set([...messageIds, ...ucids]);
  const said = [
    ...user_ids.map((id) => `"user_id":${JSON.stringify(id)}`),
    ...anonymous_ids.map((id) => `"anonymous_id":${JSON.stringify(id)}`),
  ];
  return (rows, at) => {
    if (isIn(ids, text(rows, 'message_id', at))) return true;
    const value = text(rows, 'value', at);
    return (
      text(rows, 'column_name', at) === null &&
      typeof value === 'string' &&
      said.some((name) => value.includes(name))
    );
  };
}

export function usersOf({ user_ids, ucids }: PeopleToDelete): IsTheirs {
  const [users, profiles] = [new Set(user_ids), new Set(ucids)];
  return (rows, at) => isIn(profiles, text(rows, 'ucid', at)) || isIn(users, text(rows, 'id', at));
}

export function identitiesOf({ user_ids, anonymous_ids, ucids }: PeopleToDelete): IsTheirs {
  const byType = new Map([
    ['user_id', new Set(user_ids)],
    ['anonymous_id', new Set(anonymous_ids)],
  ]);
  const profiles = new Set(ucids);
  return (rows, at) => {
    const values = byType.get(String(text(rows, 'type', at)));
    return (
      isIn(profiles, text(rows, 'ucid', at)) ||
      (values !== undefined && isIn(values, text(rows, 'value', at)))
    );
  };
}

/** The rows of a table that go, by its name. */
export function rowsOfPeople(
  table: string,
  people: PeopleToDelete,
  messageIds: ReadonlySet<string>,
): IsTheirs {
  if (table === DISCARDS_TABLE) return discardsOf(people, messageIds);
  if (table === USERS_TABLE) return usersOf(people);
  return table === IDENTITY_MAP_TABLE ? identitiesOf(people) : eventsOf(people);
}
