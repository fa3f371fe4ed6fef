import { hash } from 'node:crypto';
import {
  type ColumnType,
  type TableChange,
  type TableColumns,
  Unavailable,
  USERS_TABLE,
  WarehouseRefused,
} from '@tributary/core';
import { classifyRowFailure } from '../../client/rows.ts';
import { ERRORS, sqlStateOf } from '../../postgres/server.ts';
import { failedCall, keyOf, LEDGER, VERSIONS } from '../tables.ts';

/** An identifier. PostgreSQL has none with U+0000. */
export function quoted(name: string): string {
  return `"${name.replaceAll('"', '""').replaceAll('\0', '\ufffd')}"`;
}

/**
 * The locks of a loader whose machine is gone end after minutes, where TCP alone would keep them for hours. A change takes the time
 * that it needs, whatever bound the user's statements have.
 */
export const BEGIN_CHANGE = `begin; set local statement_timeout = 0; set local idle_in_transaction_session_timeout = '2min';
  set local tcp_keepalives_idle = 60; set local tcp_keepalives_interval = 10; set local tcp_keepalives_count = 6`;

const SQL_TYPES: Readonly<Record<ColumnType, string>> = {
  boolean: 'boolean',
  bigint: 'bigint',
  numeric: 'numeric',
  double: 'double precision',
  timestamp: 'timestamptz',
  text: 'text',
  // Not `jsonb`, which has no \u0000 and loses the spelling of numbers.
  json: 'json',
};

/** By the name that `format_type` gives: without a precision or length, which would round or cut. */
const TYPES: ReadonlyMap<unknown, ColumnType> = new Map<string, ColumnType>([
  ['boolean', 'boolean'],
  ['bigint', 'bigint'],
  ['numeric', 'numeric'],
  ['double precision', 'double'],
  ['timestamp with time zone', 'timestamp'],
  ['text', 'text'],
  ['character varying', 'text'],
  ['json', 'json'],
]);

/** Columns of tables of a schema ($1) by their names ($2); a column that nothing can be written into has no type. */
export const DESCRIBE = `
  select c.relname as name, coalesce(
    json_agg(json_build_array(a.attname,
      case when a.attgenerated = '' and a.attidentity <> 'a' then format_type(a.atttypid, a.atttypmod) end
    )) filter (where a.attname is not null), '[]') as columns
  from pg_catalog.pg_class c
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  left join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
  where n.nspname = $1 and c.relname = any($2) and c.relkind in ('r', 'p')
  group by c.relname`;

/** One row of the answer. Undefined where it is none. */
export function describedTable(row: {
  readonly name?: unknown;
  readonly columns?: unknown;
}): readonly [string, TableColumns] | undefined {
  const { name, columns } = row;
  if (typeof name !== 'string' || !Array.isArray(columns)) return undefined;
  const read = new Map<string, ColumnType | undefined>();
  for (const column of columns as readonly unknown[]) {
    const [named, type] = Array.isArray(column) ? (column as readonly unknown[]) : [];
    if (typeof named !== 'string') return undefined;
    read.set(named, TYPES.get(type));
  }
  return [name, read];
}

const columnList = (columns: ReadonlyMap<string, ColumnType>, prefix: string) =>
  [...columns].map(([name, type]) => `${prefix}${quoted(name)} ${SQL_TYPES[type]}`).join(', ');

/** The index of a table's key. The name that the server would give it may be that of an event's table. */
function keyName(table: string): string {
  return `_tributary_${hash('sha256', table).slice(0, 16)}`;
}

export function createTable(schema: string, { table, add }: TableChange): string {
  const key = keyOf(table, add);
  const constraint = key === undefined ? '' : `, constraint ${keyName(table)} primary key (${quoted(key)})`;
  return `create table ${schema}.${quoted(table)} (${columnList(add, '')}${constraint})`;
}

export function addColumns(schema: string, table: string, add: ReadonlyMap<string, ColumnType>): string {
  return `alter table ${schema}.${quoted(table)} ${columnList(add, 'add column if not exists ')}`;
}

/** Rows of a table that lost its key by hand need one again: a batch that is loaded twice would double them. */
export function createKey(schema: string, table: string, key: string): string {
  return `create unique index ${keyName(table)} on ${schema}.${quoted(table)} (${quoted(key)})`;
}

export function widenColumns(
  schema: string,
  table: string,
  columns: ReadonlyMap<string, { readonly from: ColumnType; readonly to: ColumnType }>,
): string {
  const actions = [...columns].map(([name, { from, to }]) => {
    const column = quoted(name);
    const type = SQL_TYPES[to];
    return `alter column ${column} type ${type} using ${widened(column, from, to)}`;
  });
  return `alter table ${schema}.${quoted(table)} ${actions.join(', ')}`;
}

/** The value in a wider type. Times get the text that they were read from. */
function widened(column: string, from: ColumnType, to: ColumnType): string {
  if (from !== 'timestamp') return `${column}::${SQL_TYPES[to]}`;
  const digits = `to_char(${column} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`;
  return `regexp_replace(${digits}, '000Z$', 'Z')`;
}

/** A staged text as a value of a column. */
export function cast(text: string, type: ColumnType): string {
  return type === 'text' ? text : `cast(${text} as ${SQL_TYPES[type]})`;
}

/** A temporary table for rows as text, found by their numbers. */
export function createStaging(staging: string, columns: number): string {
  const texts = Array.from({ length: columns }, (_, at) => `c${at} text`);
  return `create temporary table ${staging} (${['n integer primary key', ...texts].join(', ')}) on commit drop`;
}

/** Moves staged rows into a table; `which` selects some of them. */
export function insertStaged(
  schema: string,
  table: string,
  columns: ReadonlyMap<string, ColumnType>,
  staging: string,
  which: string,
): string {
  const names = [...columns.keys()].map(quoted).join(', ');
  const values = [...columns.values()].map((type, at) => cast(`c${at}`, type));
  const key = table === USERS_TABLE ? undefined : keyOf(table, columns);
  const conflict = key === undefined ? '' : ` on conflict (${quoted(key)}) do nothing`;
  return `insert into ${schema}.${quoted(table)} (${names}) select ${values.join(', ')} from pg_temp.${staging} s where ${which}${conflict}`;
}

/** The loader's own tables. */
export function createOwnTables(schema: string): string {
  return `
    create table if not exists ${schema}.${LEDGER} (
      destination_id text, lane text, seq bigint, batch text not null, ranges json not null, counts json not null,
      loaded_at timestamptz not null, primary key (destination_id, lane, seq));
    create table if not exists ${schema}.${VERSIONS} (ucid text primary key, version bigint not null)`;
}

/** SQLSTATEs of tables that a person changed since they were described: the next attempt describes them again. */
const CHANGED_MEANWHILE = new Set(['3F000', '42P01', '42P06', '42703', '42804', '42701', '23505']);

/** Something that is no table has the name of one, such as a view. */
const NAME_TAKEN = '42P07';

/** The error of a load for one of the server or of its connection. */
export function failureOf(error: unknown, lastFailure: Error | undefined): unknown {
  const sqlState = sqlStateOf(error);
  const options = { cause: error };
  if (isChangedMeanwhile(error))
    return new Unavailable(`the tables were changed during the load (${sqlState})`, options);
  if (error instanceof Error && sqlState === NAME_TAKEN)
    return new WarehouseRefused(refusalText(error), options);
  return failedCall(classifyRowFailure(ERRORS, error, lastFailure), error);
}

/** Whether a person or another load changed tables since they were described. */
export function isChangedMeanwhile(error: unknown): boolean {
  return CHANGED_MEANWHILE.has(sqlStateOf(error) ?? '');
}

/** Whether rows, columns or rights may be the cause; otherwise the whole load is repeated. */
export function isRefusal(error: unknown): error is Error {
  return error instanceof Error && ERRORS.mayConcernRows(error) && !isTransient(sqlStateOf(error));
}

/** Of the server or of other transactions. */
function isTransient(sqlState = ''): boolean {
  return /^(08|25|40|53|55|57|58)/.test(sqlState);
}

const REASON_LENGTH = 300;

/** What the server says of a row or a column, which is about the table alone. */
export function refusalText(refusal: Error): string {
  return `${refusal.message.slice(0, REASON_LENGTH).toWellFormed()} (${sqlStateOf(refusal) ?? ''})`;
}
