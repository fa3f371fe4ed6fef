import type { Json, JsonObject } from '@tributary/core';
import type { JudgedRow } from '../../conformance/warehouse/suite/duckdb.ts';

/*
 * Events of many names whose shapes change, and what a warehouse owes for them: a second, much simpler account of the loader.
 * Whatever type a column gets, the text of a value in it is the value's own.
 */

/** Shapes change from one phase to the next; between the last two a person changes tables. */
export type Phase = 0 | 1 | 2;

export interface SentEvent {
  readonly n: number;
  readonly phase: Phase;
  readonly message_id: string;
  readonly type: 'track' | 'identify';
  readonly user_id: string;
  readonly event?: string;
  readonly properties?: JsonObject;
  readonly traits?: JsonObject;
}

/** Tables of event names that a person changes before the last phase. */
export const CHANGED = {
  dropped: 'name_0',
  withoutPrice: 'name_1',
  retyped: 'name_2',
  foreign: 'name_3',
  held: 'name_4',
  refusing: 'name_5',
  extended: 'name_6',
} as const;
/** What the table `refusing` refuses. */
export const REFUSED = 'mallory';

/** What the engine lets a person do. */
export interface Abilities {
  readonly holds: boolean;
  readonly refuses: boolean;
}

/** One of so many events names a user. */
const IDENTIFIES = 20;
const USERS = 50;
const ODD = [
  'plain',
  'a\tb\nc\rd',
  '\\N',
  '\\.',
  `'; drop table tracks; --`,
  '"quoted", {json}',
  '\u65e5\u672c\u8a9e \u{1f600}',
  '',
  ' spaces ',
  '@seq ?',
];
const FIRST_BEYOND_DOUBLES = 9_007_199_254_740_993n;

const tableOf = (n: number, names: number) => `name_${n % names}`;
const raw = (digits: bigint) => JSON.rawJSON(String(digits)) as unknown as Json;

/** The event with a number: the same whenever it is made. */
export function sentEvent(n: number, phase: Phase, names: number): SentEvent {
  const message_id = `j-${n}`;
  if (n % IDENTIFIES === IDENTIFIES - 1) {
    const user_id = `u${Math.floor(n / IDENTIFIES) % USERS}`;
    return { n, phase, message_id, type: 'identify', user_id, traits: { seq: n, plan: `p${n % 3}` } };
  }
  const table = tableOf(n, names);
  const later = phase > 0;
  const last = phase === 2;
  const properties: Record<string, Json> = {
    k: last && table === CHANGED.held && n % 7 === 0 ? `x${n}` : n,
    price: later ? n + 0.25 : n,
    big: raw(FIRST_BEYOND_DOUBLES + BigInt(n)),
    flag: later && n % 7 === 0 ? 1 : n % 3 === 0,
    at: last && n % 11 === 0 ? 'N/A' : new Date(1_709_208_000_000 + n * 1_001).toISOString(),
    list: last && n % 13 === 0 ? 'none' : [n, 'a'],
    text: ODD[n % ODD.length] ?? '',
    deep: { a: { b: `d${n}` } },
    who: last && table === CHANGED.refusing && n % 1_000 === 5 ? REFUSED : 'alice',
  };
  if (later) properties[`late_${n % 5}`] = `v${n}`;
  if (last && table === CHANGED.extended) properties.added = n;
  if (n % 97 === 0) Object.assign(properties, { userName: `other ${n}`, user_name: `own ${n}` });
  return {
    n,
    phase,
    message_id,
    type: 'track',
    user_id: `t${n % 200}`,
    event: `Name ${n % names}`,
    properties,
  };
}

/** The columns that are compared, of every table of an event name. */
export const COLUMNS = [
  ...['id', 'user_id', 'event_text', '_unmapped'],
  ...['k', 'price', 'big', 'flag', 'at', 'list', 'text', 'deep_a_b', 'who', 'user_name', 'added'],
  ...[0, 1, 2, 3, 4].map((at) => `late_${at}`),
] as const;

/** The digits of a number, the text of any other value. */
function textOf(value: Json | undefined): string | null {
  if (value === undefined) return null;
  return typeof value === 'string' ? value : JSON.stringify(value);
}

export interface Owed {
  readonly rows: ReadonlyMap<string, readonly JudgedRow[]>;
  readonly discards: readonly JudgedRow[];
}

/** What happened to the tables: nothing; a person changed them before the last phase; then all events were replayed. */
export type State = 'untouched' | 'changed' | 'backfilled';

/** What tables and discards have of these events. */
export function owed(events: Iterable<SentEvent>, { holds, refuses }: Abilities, state: State): Owed {
  const isBackfilled = state === 'backfilled';
  const rows = new Map<string, JudgedRow[]>();
  const discards: JudgedRow[] = [];
  const users = new Map<string, JudgedRow>();
  const add = (table: string, row: JudgedRow) => {
    const known = rows.get(table);
    if (known === undefined) rows.set(table, [row]);
    else known.push(row);
  };
  for (const { phase, message_id: id, type, user_id, event = '', properties = {}, traits = {} } of events) {
    if (type === 'identify') {
      const [seq, plan] = [textOf(traits.seq), textOf(traits.plan)];
      add('identifies', { id, user_id, seq, plan });
      users.set(user_id, { id: user_id, seq, plan });
      continue;
    }
    add('tracks', { id, user_id, event_text: event });
    const table = event.toLowerCase().replace(' ', '_');
    const discard = (column: string | null, value: Json | undefined) =>
      discards.push({
        message_id: id,
        table_name: table,
        column_name: column,
        // Of a whole row it has all values.
        value: column === null ? null : JSON.stringify(value),
      });
    const last = phase === 2;
    const { userName, deep: _, ...own } = properties;
    if (userName !== undefined) discard('user_name', userName);
    const lost: Record<string, Json> = userName === undefined ? {} : { userName };
    if (refuses && table === CHANGED.refusing && own.who === REFUSED) {
      discard(null, undefined);
      continue;
    }
    if (table === CHANGED.dropped && !last && state === 'changed') continue;
    const row: Record<string, string | null> = { id, user_id, event_text: event };
    for (const name of COLUMNS) row[name] ??= textOf(own[name]);
    row.deep_a_b = `d${id.slice(2)}`;
    if (table === CHANGED.withoutPrice && !last && state !== 'untouched') row.price = null;
    if (table === CHANGED.foreign && state !== 'untouched') {
      row.price = null;
      if (last) lost.price = own.price ?? null;
      if (last || isBackfilled) discard('price', own.price);
    }
    if (holds && table === CHANGED.held && typeof own.k === 'string') {
      row.k = null;
      lost.k = own.k;
      discard('k', own.k);
    }
    row._unmapped = Object.keys(lost).length === 0 ? null : JSON.stringify({ properties: lost });
    add(table, row);
  }
  rows.set('users', [...users.values()]);
  return { rows, discards };
}
