import {
  type ColumnType,
  IDENTITY_MAP_TABLE,
  type JsonObject,
  objectIn,
  type TableChange,
  type TableColumns,
} from '@tributary/core';
import { KEPT_LOADS, keyOf, LEDGER, VERSIONS } from '../tables.ts';

/** The row that loads and rebuilds contend for. */
export const LOCK = '_tributary_lock';
/** What the name of a table for staged rows begins with. */
export const STAGE = '_tributary_stage_';

/** What a script says where it changed nothing: another loader committed the batch; a column is written anew. */
export const LOADED = 'tributary: the batch is loaded';
export const REBUILDING = 'tributary: a table is written anew';
/** The table of staged rows has not those that were sent. */
export const STAGED = 'tributary: staged rows are missing';

/** The description of a column that holds JSON. */
const JSON_MARK = 'JSON';

const SQL_TYPES: Readonly<Record<ColumnType, string>> = {
  boolean: 'bool',
  bigint: 'int64',
  numeric: 'bignumeric',
  double: 'float64',
  timestamp: 'timestamp',
  text: 'string',
  // Not `json`, which rounds numbers to a double.
  json: 'string',
};

/** By the name that the API gives. */
const TYPES: ReadonlyMap<unknown, ColumnType> = new Map<string, ColumnType>([
  ['BOOL', 'boolean'],
  ['BOOLEAN', 'boolean'],
  ['INT64', 'bigint'],
  ['INTEGER', 'bigint'],
  // Holds each integer of 64 bits, and becomes a BIGNUMERIC in place.
  ['NUMERIC', 'bigint'],
  ['BIGNUMERIC', 'numeric'],
  ['FLOAT64', 'double'],
  ['FLOAT', 'double'],
  ['TIMESTAMP', 'timestamp'],
  ['STRING', 'text'],
]);

/** An identifier. */
export function quoted(name: string): string {
  return `\`${name.replaceAll(/[\\`]/g, '\\$&')}\``;
}

/**
 * The columns of a table, by the fields that the API gives. Undefined where there are none. Nothing is written into one with a
 * length or precision, which would cut or round; with a collation, which takes different texts for the same; or that is required.
 */
export function describedColumns(table: JsonObject): TableColumns | undefined {
  const { fields } = objectIn(table.schema);
  if (!Array.isArray(fields) || fields.length === 0) return undefined;
  const columns = new Map<string, ColumnType | undefined>();
  for (const field of fields) {
    const {
      name,
      type,
      mode = 'NULLABLE',
      description,
      collation = '',
      maxLength,
      precision,
    } = objectIn(field);
    if (typeof name !== 'string') return undefined;
    const isPlain =
      mode === 'NULLABLE' && collation === '' && maxLength === undefined && precision === undefined;
    const known = isPlain ? TYPES.get(type) : undefined;
    // Names of columns that differ by case are one to BigQuery.
    columns.set(name.toLowerCase(), known === 'text' && description === JSON_MARK ? 'json' : known);
  }
  return columns;
}

/** The time by which tables of events are partitioned. */
const RECEIVED = 'received_at';

/** A new table, as the API takes it. */
export function tableResource(
  reference: JsonObject,
  table: string,
  columns: ReadonlyMap<string, ColumnType>,
): JsonObject {
  const key = table === IDENTITY_MAP_TABLE || table === VERSIONS ? 'ucid' : keyOf(table, columns);
  return {
    tableReference: reference,
    schema: {
      fields: Array.from(columns, ([name, type]) => ({
        name,
        type: SQL_TYPES[type].toUpperCase(),
        ...(type === 'json' ? { description: JSON_MARK } : {}),
      })),
    },
    ...(columns.get(RECEIVED) === 'timestamp' ? { timePartitioning: { type: 'DAY', field: RECEIVED } } : {}),
    ...(key === undefined ? {} : { clustering: { fields: [key] } }),
  };
}

export const OWN_TABLES: Readonly<Record<string, ReadonlyMap<string, ColumnType>>> = {
  [LEDGER]: new Map<string, ColumnType>([
    ['destination_id', 'text'],
    ['lane', 'text'],
    ['seq', 'bigint'],
    ['batch', 'text'],
    ['ranges', 'json'],
    ['counts', 'json'],
    ['loaded_at', 'timestamp'],
  ]),
  [VERSIONS]: new Map<string, ColumnType>([
    ['ucid', 'text'],
    ['version', 'bigint'],
  ]),
  [LOCK]: new Map<string, ColumnType>([
    ['rebuilding', 'text'],
    ['loads', 'bigint'],
  ]),
};

/** The table of the staged rows of one attempt: `t` is the number of their table, `n` that of the row, `c0`, ... its values. */
export function stageResource(
  reference: JsonObject,
  tables: number,
  width: number,
  endsAt: number,
): JsonObject {
  const numbers = ['t', 'n'].map((name) => ({ name, type: 'INT64' }));
  const texts = Array.from({ length: width }, (_, at) => ({ name: `c${at}`, type: 'STRING' }));
  return {
    tableReference: reference,
    schema: { fields: [...numbers, ...texts] },
    // A statement that reads the rows of one table is billed for those alone.
    rangePartitioning: { field: 't', range: { start: '0', end: String(tables), interval: '1' } },
    expirationTime: String(endsAt),
  };
}

/** Statements that add and widen columns in place. */
export function inPlace(
  of: string,
  add: ReadonlyMap<string, ColumnType>,
  widen: TableChange['widen'],
): readonly string[] {
  const added = Array.from(add, ([column, type]) => {
    const mark = type === 'json' ? ` options (description = '${JSON_MARK}')` : '';
    return `add column if not exists ${quoted(column)} ${SQL_TYPES[type]}${mark}`;
  });
  const widened = Array.from(widen, ([column, { to }]) => {
    const change = to === 'numeric' ? 'set data type bignumeric' : "set options (description = '')";
    return `alter table ${of} alter column ${quoted(column)} ${change}`;
  });
  return [...(added.length === 0 ? [] : [`alter table ${of} ${added.join(', ')}`]), ...widened];
}

/** Whether a column becomes wider without being written anew. */
export function isInPlace(from: ColumnType, to: ColumnType): boolean {
  return to === 'numeric' || from === 'json';
}

/**
 * Writes columns anew as texts, each beside the old one, whose name it takes at the end. Loads are kept away by the mark in the
 * lock, which is the id of the job: where it ended in the middle, what it did is done again, or was done.
 */
export function rebuild(of: string, lock: string, columns: TableChange['widen']): readonly string[] {
  const names = [...columns.keys()];
  const [fresh, old] = ['_tributary_new_', '_tributary_old_'].map(
    (prefix) => (name: string) => quoted(`${prefix}${name}`),
  );
  if (fresh === undefined || old === undefined) return [];
  const each = (action: (name: string) => string) => names.map(action).join(', ');
  const texts = [...columns].map(([name, { from }]) => `${fresh(name)} = ${asText(quoted(name), from)}`);
  return [
    `update ${lock} set rebuilding = @job where rebuilding is null`,
    `if @@row_count = 0 then raise using message = '${REBUILDING}'; end if`,
    `alter table ${of} ${each((name) => `add column if not exists ${fresh(name)} string`)}`,
    `update ${of} set ${texts.join(', ')} where true`,
    `alter table ${of} ${each((name) => `rename column ${quoted(name)} to ${old(name)}, rename column ${fresh(name)} to ${quoted(name)}`)}`,
    `alter table ${of} ${each((name) => `drop column if exists ${old(name)}`)}`,
    `update ${lock} set rebuilding = null where rebuilding = @job`,
  ];
}

/** The value of a column as a text. Times get the text that they were read from. */
function asText(column: string, from: ColumnType): string {
  if (from !== 'timestamp') return `cast(${column} as string)`;
  return `regexp_replace(format_timestamp('%E4Y-%m-%dT%H:%M:%E6SZ', ${column}, 'UTC'), r'000Z$', 'Z')`;
}

/** What every transaction begins with. Of several at a time, all but one are ended by BigQuery, as they change one row. */
export function locking(lock: string): readonly string[] {
  return [
    'begin transaction',
    `update ${lock} set loads = loads + 1 where rebuilding is null`,
    `if @@row_count = 0 then raise using message = '${REBUILDING}'; end if`,
  ];
}

/** Counts rows of the statement before, for the result of the script. */
const COUNT = 'set counts = array_concat(counts, [@@row_count])';

/** A script that counts the rows of its statements; the result has the counts as JSON. */
export function countingScript(
  before: readonly string[],
  counted: readonly string[],
  after: readonly string[],
): string {
  return [
    'declare counts array<int64> default []',
    ...before,
    ...counted.flatMap((statement) => [statement, COUNT]),
    ...after,
    'commit transaction',
    'select to_json_string(counts)',
  ].join(';\n');
}

/** Refuses a batch that is loaded, and one whose staged rows are not those that were sent. */
export function checks(ledger: string, stage: string, rows: number): readonly string[] {
  const isLoaded = `exists (select 1 from ${ledger} where destination_id = @destination and lane = @lane and seq >= cast(@seq as int64))`;
  return [
    `if ${isLoaded} then raise using message = '${LOADED}'; end if`,
    ...(rows === 0
      ? []
      : [`if (select count(*) from ${stage}) <> ${rows} then raise using message = '${STAGED}'; end if`]),
  ];
}

export function writeLedger(ledger: string, seq: number): readonly string[] {
  const old = `delete from ${ledger} where destination_id = @destination and lane = @lane and seq <= cast(@seq as int64) - ${KEPT_LOADS}`;
  return [
    `insert into ${ledger} (destination_id, lane, seq, batch, ranges, counts, loaded_at) values (@destination, @lane, cast(@seq as int64), @batch, @ranges, @counts, cast(@loaded_at as timestamp))`,
    ...(seq % KEPT_LOADS === 0 ? [old] : []),
  ];
}

/** A staged text as a value of its column. */
export function cast(text: string, type: ColumnType): string {
  return SQL_TYPES[type] === 'string' ? text : `cast(${text} as ${SQL_TYPES[type]})`;
}

/** A statement that changes rows of a table. */
export interface TableStatement {
  readonly table: string;
  readonly statement: string;
}
