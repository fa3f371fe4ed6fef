import { type ColumnType, IDENTITY_MAP_TABLE, type TableChange, USERS_TABLE } from '@tributary/core';
import { LEDGER, type Part } from '../tables.ts';

/** A row of a result. */
export type ResultRow = Readonly<Record<string, unknown>>;

/** An identifier. */
export function quoted(name: string): string {
  return `\`${name.replace(/[\\`]/g, '\\$&')}\``;
}

export function literal(text: string): string {
  return `'${text.replace(/[\\']/g, '\\$&')}'`;
}

/**
 * A product of two decimals has the digits behind the point of both, and a division shifts by those of one: with 30 both have room
 * for 16 digits before it. With 38, as many as behind, 10.5 * 2.5 would overflow.
 */
export const DECIMAL = { precision: 76, scale: 30 };

/** The type without `Nullable`, which all have but those of a key. */
const SQL_TYPES: Readonly<Record<ColumnType, string>> = {
  boolean: 'Bool',
  bigint: 'Int64',
  numeric: `Decimal(${DECIMAL.precision}, ${DECIMAL.scale})`,
  double: 'Float64',
  timestamp: "DateTime64(6, 'UTC')",
  text: 'String',
  // Not `JSON`, whose numbers are of 64 bits.
  json: 'String',
};

/** The comment of a column with JSON, which tells it from one with text. */
const JSON_COMMENT = 'JSON';
/** The comment of a text column whose values still have the form that the server gives those of another type. */
const UNFINISHED = /^tributary: was (double|timestamp)$/;
const unfinished = (from: ColumnType) => `tributary: was ${from}`;

/** By what the server says: types of columns, and those of a key. `String` has two, see `JSON_COMMENT`. */
const TYPES_OF_KEYS: ReadonlyMap<string, ColumnType> = new Map<string, ColumnType>([
  [SQL_TYPES.boolean, 'boolean'],
  [SQL_TYPES.bigint, 'bigint'],
  [SQL_TYPES.numeric, 'numeric'],
  [SQL_TYPES.double, 'double'],
  [SQL_TYPES.timestamp, 'timestamp'],
  [SQL_TYPES.text, 'text'],
]);
const TYPES: ReadonlyMap<string, ColumnType> = new Map([
  ...[...TYPES_OF_KEYS].map(([sql, type]) => [`Nullable(${sql})`, type] as const),
  ['LowCardinality(Nullable(String))', 'text'] as const,
]);

/** Columns of versioned tables that their views leave out. */
const VERSION = '_tributary_version';
const IS_GONE = '_tributary_gone';

/** Tables that are versioned, with their keys. A view of their newest rows has their name. */
const VERSIONED: ReadonlyMap<string, readonly string[]> = new Map([
  [USERS_TABLE, ['ucid']],
  [IDENTITY_MAP_TABLE, ['ucid', 'type', 'value', 'valid_from']],
]);

export function isVersioned(table: string): boolean {
  return VERSIONED.has(table);
}

/** The table that has the rows. */
export function storedName(table: string): string {
  return isVersioned(table) ? `_tributary_${table}` : table;
}

/** The type of a column before and after. */
export interface Widening {
  readonly from: ColumnType;
  readonly to: ColumnType;
}

/** A change of rows that are there, which the server makes by writing parts of the table anew. */
export interface Mutation {
  readonly change: string;
  /** Which rows. */
  readonly where: string;
}

/** The statements of one database. */
export class DatabaseSql {
  readonly database: string;
  readonly #engine: string;

  /** `isReplicated`: whether tables must say that they are replicated; the databases of ClickHouse Cloud say it for them. */
  constructor(database: string, isReplicated: boolean) {
    this.database = database;
    this.#engine = isReplicated ? 'Replicated' : '';
  }

  /** A table as a statement names it. */
  table(name: string): string {
    return `${quoted(this.database)}.${quoted(name)}`;
  }

  stored(table: string): string {
    return this.table(storedName(table));
  }

  /** Makes a table of rows, and the view of a versioned one. */
  create({ table, add }: TableChange): readonly string[] {
    const key = VERSIONED.get(table);
    if (key !== undefined) {
      const internal = [`${VERSION} UInt64`, `${IS_GONE} Bool`];
      const columns = [...this.#columns(add, key), ...internal].join(', ');
      return [
        `create table if not exists ${this.stored(table)} (${columns})
           engine = ${this.#engine}ReplacingMergeTree(${VERSION}) order by (${key.join(', ')})${DURABLE}`,
        this.view(table),
      ];
    }
    const order = ['received_at', 'id'].filter((column) => add.has(column));
    const columns = this.#columns(add, ['id']);
    const ids = add.has('id')
      ? ['projection _tributary_ids (select cityHash64(id) as hash, id order by hash)']
      : [];
    return [
      `create table if not exists ${this.table(table)} (${[...columns, ...ids].join(', ')})
         engine = ${this.#engine}MergeTree order by (${order.join(', ')})${DURABLE}, allow_nullable_key = 1`,
    ];
  }

  /** The newest row of each key. */
  view(table: string): string {
    return `create or replace view ${this.table(table)} as
      select * except (${VERSION}, ${IS_GONE}) from ${this.stored(table)} final where not ${IS_GONE}`;
  }

  addColumns(table: string, columns: ReadonlyMap<string, ColumnType>): string {
    const actions = this.#columns(columns, []).map((column) => `add column if not exists ${column}`);
    return `alter table ${this.stored(table)} ${actions.join(', ')}`;
  }

  /** Changes the types of columns: at once for readers, while the server rewrites the values. */
  widenColumns(table: string, columns: ReadonlyMap<string, Widening>): string {
    const actions = [...columns].map(([column, { from, to }]) => {
      const comment = to === 'text' && TEXTS.has(from) ? unfinished(from) : '';
      return `modify column ${quoted(column)} Nullable(${SQL_TYPES[to]}) comment ${literal(comment)}`;
    });
    return `alter table ${this.stored(table)} ${actions.join(', ')}`;
  }

  /**
   * The mutation that gives values of columns that became texts the form that they have in events, and the statement that says that
   * they have it; undefined where the server gave it to them.
   */
  finishTexts(
    table: string,
    columns: ReadonlyMap<string, Widening>,
  ): { readonly mutation: Mutation; readonly end: string } | undefined {
    const texts = [...columns].flatMap(([name, { from, to }]) => {
      const text = to === 'text' ? TEXTS.get(from) : undefined;
      return text === undefined ? [] : [{ column: quoted(name), ...text(`ifNull(${quoted(name)}, '')`) }];
    });
    if (texts.length === 0) return undefined;
    const alter = `alter table ${this.stored(table)}`;
    const updates = texts.map(
      ({ column, isMeant, value }) => `${column} = if(${isMeant}, ${value}, ${column})`,
    );
    return {
      mutation: {
        change: `${alter} update ${updates.join(', ')}`,
        where: texts.map(({ isMeant }) => isMeant).join(' or '),
      },
      end: `${alter} ${texts.map(({ column }) => `comment column ${column} ''`).join(', ')}`,
    };
  }

  /** The ledger. */
  createLedger(): string {
    return `create table if not exists ${this.table(LEDGER)}
      (destination_id String, lane String, seq UInt64, batch String, ranges String, counts String,
       loaded_at DateTime64(3, 'UTC'))
      engine = ${this.#engine}MergeTree order by (destination_id, lane, seq)${DURABLE}`;
  }

  /** The staged rows of one attempt. A row knows its attempt: another one may get the name of the table. */
  createStage(name: string, attempt: string): string {
    return `create table ${this.table(name)}
      (attempt String default ${literal(attempt)}, at DateTime64(3, 'UTC') default now64(3),
       t LowCardinality(String), n UInt32, v Array(Nullable(String)))
      engine = ${this.#engine}MergeTree order by (t, n)`;
  }

  /** Columns with types; those of a key are never null. */
  #columns(columns: ReadonlyMap<string, ColumnType>, key: readonly string[]): readonly string[] {
    return [...columns].map(([name, type]) => {
      const sql = key.includes(name) ? SQL_TYPES[type] : `Nullable(${SQL_TYPES[type]})`;
      const comment = type === 'json' ? ` comment ${literal(JSON_COMMENT)}` : '';
      return `${quoted(name)} ${sql}${comment}`;
    });
  }
}

/** What was acknowledged is on the disk: also the ledger must not survive a loss of power without the rows. */
const DURABLE = ' settings fsync_after_insert = 1, fsync_part_directory = 1';

/** Texts of other types in the form of the server, how they are recognized, and the same in the form of an event. */
const TEXTS: ReadonlyMap<ColumnType, (text: string) => { readonly isMeant: string; readonly value: string }> =
  new Map([
    [
      'timestamp',
      (text) => ({
        isMeant: `match(${text}, '^\\\\d{4}-\\\\d\\\\d-\\\\d\\\\d \\\\d\\\\d:\\\\d\\\\d:\\\\d\\\\d\\\\.\\\\d{6}$')`,
        value: `concat(substring(${text}, 1, 10), 'T', substring(${text}, 12, 12),
        if(endsWith(${text}, '000'), '', substring(${text}, 24, 3)), 'Z')`,
      }),
    ],
    [
      'double',
      (text) => {
        const part = (at: number) => `splitByChar('e', trim(leading '-' from ${text}))[${at}]`;
        const digits = `replaceAll(${part(1)}, '.', '')`;
        const exponent = `toInt32OrZero(${part(2)})`;
        return {
          isMeant: `match(${text}, '^-?\\\\d(\\\\.\\\\d+)?e-?\\\\d+$')`,
          value: `concat(if(startsWith(${text}, '-'), '-', ''), if(${exponent} < 0,
          concat('0.', repeat('0', toUInt32(greatest(0, -1 - ${exponent}))), ${digits}),
          rightPad(${digits}, toUInt32(greatest(0, 1 + ${exponent})), '0')))`,
        };
      },
    ],
  ]);

/** Columns of tables of a loader: those of other engines, such as views, have none. */
export const DESCRIBE = `
  select table, name, type, default_kind, comment, is_in_sorting_key as is_key from system.columns
  where database = {database:String} and table in {tables:Array(String)} and table in (
    select name from system.tables where database = {database:String} and engine like '%MergeTree')`;

/** A column that was described; undefined where the answer is none. */
export function describedColumn(
  row: ResultRow,
): { readonly table: string; readonly name: string; readonly type: ColumnType | undefined } | undefined {
  const { table, name, type: sql, default_kind: kind, comment } = row;
  if (typeof table !== 'string' || typeof name !== 'string' || typeof sql !== 'string') return undefined;
  const isKey = Number(row.is_key) === 1 || name === 'id';
  return { table, name, type: kind === '' || kind === 'DEFAULT' ? typeOf(sql, isKey, comment) : undefined };
}

function typeOf(sql: string, isKey: boolean, comment: unknown): ColumnType | undefined {
  const type = TYPES.get(sql) ?? (isKey ? TYPES_OF_KEYS.get(sql) : undefined);
  if (type !== 'text') return type;
  const [, from] = UNFINISHED.exec(String(comment)) ?? [];
  if (from === 'double' || from === 'timestamp') return from;
  return comment === JSON_COMMENT ? 'json' : 'text';
}

/** Where an attempt has its staged rows. */
export interface Staged {
  /** The table that has the claim. */
  readonly claim: string;
  readonly attempt: string;
}

const text = (place: number) => `assumeNotNull(v[${place}])`;

/** The rows of a staging: `n` and `v`. */
function staged({ claim, attempt }: Staged, label: string, more = ''): string {
  return `${claim} where attempt = ${literal(attempt)} and t = ${literal(label)}${more}`;
}

/**
 * Inserts staged rows whose key is not there, the first of several. They are looked for by a hash, which the projection has in
 * order; a text of 36 letters would take five times as long.
 */
export function insertRows(
  table: string,
  columns: readonly string[],
  source: Staged & { readonly label: string },
  { from, to }: Part,
): string {
  const id = text(columns.indexOf('id') + 1);
  const part = staged(source, source.label, ` and n >= ${from} and n < ${to}`);
  const values = columns.map((column, at) => (column === 'id' ? text(at + 1) : `v[${at + 1}]`));
  return `insert into ${table} (${columns.map(quoted).join(', ')})
    select ${values.join(', ')} from (select n, v from ${part} order by n limit 1 by ${id})
    where ${id} not in (select id from ${table}
      where cityHash64(id) in (select cityHash64(${id}) from ${part}) and id in (select ${id} from ${part}))`;
}

/** Labels of staged rows that are of no table. Names of tables begin with a letter or `_`. */
export const PROFILES = '#profiles';
export const LEDGER_ROW = '#ledger';

/** Values of a staged row with `PROFILES`: each ucid once. */
export type StagedProfile = readonly [
  ucid: string,
  version: string,
  at: string,
  isDeleted: 'true' | 'false',
  isGone: 'true' | 'false',
];

/** Common table expressions: the staged profiles whose change is newer than what was loaded. */
function news(users: string, source: Staged): string {
  return `with profiles as (
      select ${text(1)} as ucid, toUInt64(${text(2)}) as version, toDateTime64(${text(3)}, 6, 'UTC') as at,
        ${text(4)} = 'true' as is_deleted, ${text(5)} = 'true' as is_gone
      from ${staged(source, PROFILES)}),
    known as (
      select ucid, max(${VERSION}) as version from ${users} where ucid in (select ucid from profiles) group by ucid),
    news as (
      select * from profiles where ucid not in (
        select profiles.ucid from profiles inner join known on known.ucid = profiles.ucid
        where known.version >= profiles.version))`;
}

/** The deleted profiles among the news. */
export function deletedProfiles(users: string, source: Staged): string {
  return `${news(users, source)} select ucid from news where is_deleted`;
}

/** Closes what profiles are no longer called, and opens what they are called from now on. Twice, it changes nothing more. */
export function insertIdentities(identities: string, users: string, source: Staged): string {
  return `insert into ${identities} (ucid, type, value, valid_from, valid_to, ${VERSION})
    ${news(users, source)},
    held as (
      select distinct ${text(1)} as ucid, ${text(2)} as type, ${text(3)} as value,
        toDateTime64(${text(4)}, 6, 'UTC') as valid_from
      from ${staged(source, IDENTITY_MAP_TABLE)}),
    open as (
      select ucid, type, value, valid_from from ${identities} final
      where ucid in (select ucid from news) and valid_to is null)
    select open.ucid, open.type, open.value, open.valid_from, news.at, news.version
    from open inner join news on news.ucid = open.ucid
    where (open.ucid, open.type, open.value) not in (select ucid, type, value from held)
    union all
    select held.ucid, held.type, held.value, held.valid_from, null, news.version
    from held inner join news on news.ucid = held.ucid
    where (held.ucid, held.type, held.value) not in (select ucid, type, value from open)`;
}

/** Inserts the rows of profiles; a reader finds the newest of each. */
export function insertUsers(
  users: string,
  columns: readonly string[],
  source: Staged,
  { from, to }: Part,
): string {
  const [ucid, version] = ['ucid', 'version'].map((name) => text(columns.indexOf(name) + 1));
  const values = columns.map((column, at) => (column === 'ucid' ? `${ucid}` : `v[${at + 1}]`));
  return `insert into ${users} (${columns.map(quoted).join(', ')}, ${VERSION})
    ${news(users, source)}
    select ${values.join(', ')}, toUInt64(${version})
    from (select v from ${staged(source, USERS_TABLE, ` and n >= ${from} and n < ${to}`)})
    where ${ucid} in (select ucid from news)`;
}

/** Remembers the versions of profiles that are gone. */
export function insertGone(users: string, source: Staged): string {
  return `insert into ${users} (ucid, ${VERSION}, ${IS_GONE})
    ${news(users, source)} select ucid, version, true from news where is_gone`;
}

/** Remembers the versions of profiles whose rows are about to be deleted. */
export function insertForgotten(users: string, isTheirs: string): string {
  return `insert into ${users} (ucid, ${VERSION}, ${IS_GONE})
    select ucid, max(${VERSION}), true from ${users} where ${isTheirs} group by ucid`;
}

/** Of the rows of a versioned table those that are no memory of a version. */
export const IS_ROW = `not ${IS_GONE}`;

export function insertLedger(ledger: string, source: Staged): string {
  return `insert into ${ledger} (destination_id, lane, seq, batch, ranges, counts, loaded_at)
    select ${text(1)}, ${text(2)}, toUInt64(${text(3)}), ${text(4)}, ${text(5)}, ${text(6)}, toDateTime64(${text(7)}, 3, 'UTC')
    from (select v from ${staged(source, LEDGER_ROW)})`;
}
