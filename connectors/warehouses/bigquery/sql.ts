import {
  type ColumnType,
  DISCARDS_TABLE,
  IDENTITY_MAP_TABLE,
  type JsonObject,
  objectIn,
  type TableChange,
  type TableColumns,
  USERS_TABLE,
} from '@tributary/core';
import { KEPT_LOADS, keyOf, LEDGER, NOT_OF_EVENTS, VERSIONS } from '../tables.ts';

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

/** Staged rows of one table. */
export interface StagedRows {
  readonly table: string;
  readonly columns: ReadonlyMap<string, ColumnType>;
  /** Their number in the stage. */
  readonly number: number;
  /** Where rows that are there already are looked for, by the time at which they were received. Undefined: everywhere. */
  readonly window: { readonly from: string; readonly to: string } | undefined;
}

/** Moves staged rows into a table that has none with their id; of several with one id the first. */
export function insertStaged(
  of: string,
  stage: string,
  { table, columns, number, window }: StagedRows,
): string {
  const key = keyOf(table, columns);
  const id = `c${[...columns.keys()].indexOf(key ?? '')}`;
  const near =
    window === undefined
      ? ''
      : ` and k.${RECEIVED} between timestamp '${window.from}' and timestamp '${window.to}'`;
  return `${insertInto(of, columns)} from (select *, row_number() over (partition by ${id} order by n) as nth from ${stage} where t = ${number}) s where nth = 1 and not exists (select 1 from ${of} k where k.${quoted(key ?? '')} = s.${id}${near})`;
}

function insertInto(of: string, columns: ReadonlyMap<string, ColumnType>): string {
  const names = [...columns.keys()].map(quoted).join(', ');
  const values = [...columns.values()].map((type, at) => cast(`c${at}`, type)).join(', ');
  return `insert into ${of} (${names}) select ${values}`;
}

/** A staged text as a value of its column. */
function cast(text: string, type: ColumnType): string {
  return SQL_TYPES[type] === 'string' ? text : `cast(${text} as ${SQL_TYPES[type]})`;
}

/** The profiles of the batch whose change is newer than what was loaded, with the time of the change. */
const NEWS = 'tributary_news';

/** Columns of the staged rows for `gone` of `ProfileRows`. */
export const OF_GONE: ReadonlyMap<string, ColumnType> = new Map<string, ColumnType>([
  ['ucid', 'text'],
  ['version', 'bigint'],
  ['at', 'timestamp'],
  ['deleted', 'boolean'],
]);

interface ProfileTables {
  readonly stage: string;
  readonly versions: string;
  readonly usersTable: string;
  readonly map: string;
  readonly users: StagedRows | undefined;
  readonly identities: StagedRows;
  readonly gone: StagedRows;
}

/** What `ProfileRows` says. The rows of `users` that are inserted are counted. */
export function applyProfiles(tables: ProfileTables): {
  readonly before: readonly string[];
  readonly counted: readonly string[];
} {
  const { stage, versions, usersTable, map, users, identities, gone } = tables;
  const isNews = (column: string) => `${column} in (select ucid from ${NEWS})`;
  const [ucid, version] = ['ucid', 'version'].map(
    (name) => `c${[...(users?.columns.keys() ?? [])].indexOf(name)}`,
  );
  const changed = [
    `select c0 as ucid, cast(c1 as int64) as version, cast(c2 as timestamp) as changed_at from ${stage} where t = ${gone.number}`,
    ...(users === undefined
      ? []
      : [
          `select ${ucid}, cast(${version} as int64), cast(null as timestamp) from ${stage} where t = ${users.number}`,
        ]),
  ];
  const ofMap = `select *, row_number() over (partition by c0, c1, c2 order by n) as nth from ${stage} where t = ${identities.number}`;
  const before = [
    // A profile that is left without identities has no time of its change here.
    `create temp table ${NEWS} as select s.ucid, s.version, coalesce(s.changed_at, i.changed_at, current_timestamp()) as changed_at from (${changed.join(' union all ')}) s left join (select c0 as ucid, min(cast(c3 as timestamp)) as changed_at from ${stage} where t = ${identities.number} group by c0) i on i.ucid = s.ucid where not exists (select 1 from ${versions} k where k.ucid = s.ucid and k.version >= s.version)`,
    `delete from ${versions} where ${isNews('ucid')}`,
    `insert into ${versions} (ucid, version) select ucid, version from ${NEWS}`,
    `delete from ${map} where ${isNews('ucid')} and ucid in (select c0 from ${stage} where t = ${gone.number} and cast(c3 as bool))`,
    `update ${map} m set valid_to = w.changed_at from ${NEWS} w where w.ucid = m.ucid and m.valid_to is null and not exists (select 1 from ${stage} s where s.t = ${identities.number} and s.c0 = m.ucid and s.c1 = m.type and s.c2 = m.value)`,
    `insert into ${map} (ucid, type, value, valid_from) select c0, c1, c2, cast(c3 as timestamp) from (${ofMap}) s where nth = 1 and ${isNews('c0')} and not exists (select 1 from ${map} m where m.ucid = s.c0 and m.type = s.c1 and m.value = s.c2 and m.valid_to is null)`,
    `delete from ${usersTable} where ${isNews('ucid')}`,
  ];
  if (users === undefined) return { before, counted: [] };
  const inserted = `${insertInto(usersTable, users.columns)} from ${stage} where t = ${users.number} and ${isNews(String(ucid))}`;
  return { before, counted: [inserted] };
}

/** A statement that changes rows of a table. */
export interface TableStatement {
  readonly table: string;
  readonly statement: string;
}

/** Columns that name a person, with the parameter that has the ids. The previous id of an alias is that of a user or a device. */
const PEOPLE: readonly (readonly [column: string, parameter: string])[] = [
  ['user_id', '@users'],
  ['anonymous_id', '@devices'],
  ['previous_id', '@both'],
];

/** Deletes the rows of people from the tables of a loader, and what was discarded of them, in this order. */
export function deletions(
  described: ReadonlyMap<string, TableColumns>,
  of: (table: string) => string,
): readonly TableStatement[] {
  const found: TableStatement[] = [];
  const remove = (table: string, condition: string) => {
    if (described.has(table)) found.push({ table, statement: `delete from ${of(table)} where ${condition}` });
  };
  for (const [table, columns] of described) {
    if (NOT_OF_EVENTS.has(table)) continue;
    for (const [column, parameter] of PEOPLE) {
      if (!columns.has(column)) continue;
      const isTheirs = `cast(${column} as string) in unnest(${parameter})`;
      if (columns.has('id'))
        remove(
          DISCARDS_TABLE,
          `message_id in (select regexp_replace(cast(id as string), r'^development:', '') from ${of(table)} where ${isTheirs})`,
        );
      remove(table, isTheirs);
    }
  }
  // Whole events and rows, by the text of their JSON: single values were found by the ids of their events.
  remove(
    DISCARDS_TABLE,
    'message_id in unnest(@ucids) or (column_name is null and exists (select 1 from unnest(@said) as said where strpos(value, said) > 0))',
  );
  remove(USERS_TABLE, 'ucid in unnest(@ucids) or id in unnest(@users)');
  remove(
    IDENTITY_MAP_TABLE,
    "ucid in unnest(@ucids) or (type = 'user_id' and value in unnest(@users)) or (type = 'anonymous_id' and value in unnest(@devices))",
  );
  return found;
}
