import { newId } from '@tributary/core';
import { LEDGER } from '../../tables.ts';

/*
 * The tables of a catalog, by https://ducklake.select/docs/stable/specification/tables/overview, and the ledger beside them.
 */

/** The version of the specification, which DuckDB 1.5 reads and writes. */
export const VERSION = '1.0';
/** The comment of a column whose texts are JSON. DuckDB refuses some documents in a column of its type JSON. */
export const JSON_COMMENT = 'JSON';
/** The schema of all tables, in the catalog. */
export const SCHEMA = 'main';

const ID = 'BIGINT';
const TEXT = 'VARCHAR';

/** Columns by table; B, T and U stand for the types that depend on the database. */
const TABLES: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  ducklake_metadata: { key: 'VARCHAR NOT NULL', value: 'VARCHAR NOT NULL', scope: TEXT, scope_id: ID },
  ducklake_snapshot: {
    snapshot_id: 'BIGINT PRIMARY KEY',
    snapshot_time: 'T',
    schema_version: ID,
    next_catalog_id: ID,
    next_file_id: ID,
  },
  ducklake_snapshot_changes: {
    snapshot_id: 'BIGINT PRIMARY KEY',
    changes_made: TEXT,
    author: TEXT,
    commit_message: TEXT,
    commit_extra_info: TEXT,
  },
  ducklake_schema: {
    schema_id: 'BIGINT PRIMARY KEY',
    schema_uuid: 'U',
    begin_snapshot: ID,
    end_snapshot: ID,
    schema_name: TEXT,
    path: TEXT,
    path_is_relative: 'B',
  },
  ducklake_table: {
    table_id: ID,
    table_uuid: 'U',
    begin_snapshot: ID,
    end_snapshot: ID,
    schema_id: ID,
    table_name: TEXT,
    path: TEXT,
    path_is_relative: 'B',
  },
  ducklake_view: {
    view_id: ID,
    view_uuid: 'U',
    begin_snapshot: ID,
    end_snapshot: ID,
    schema_id: ID,
    view_name: TEXT,
    dialect: TEXT,
    sql: TEXT,
    column_aliases: TEXT,
  },
  ducklake_tag: { object_id: ID, begin_snapshot: ID, end_snapshot: ID, key: TEXT, value: TEXT },
  ducklake_column_tag: {
    table_id: ID,
    column_id: ID,
    begin_snapshot: ID,
    end_snapshot: ID,
    key: TEXT,
    value: TEXT,
  },
  ducklake_data_file: {
    data_file_id: 'BIGINT PRIMARY KEY',
    table_id: ID,
    begin_snapshot: ID,
    end_snapshot: ID,
    file_order: ID,
    path: TEXT,
    path_is_relative: 'B',
    file_format: TEXT,
    record_count: ID,
    file_size_bytes: ID,
    footer_size: ID,
    row_id_start: ID,
    partition_id: ID,
    encryption_key: TEXT,
    mapping_id: ID,
    partial_max: ID,
  },
  ducklake_file_column_stats: {
    data_file_id: ID,
    table_id: ID,
    column_id: ID,
    column_size_bytes: ID,
    value_count: ID,
    null_count: ID,
    min_value: TEXT,
    max_value: TEXT,
    contains_nan: 'B',
    extra_stats: TEXT,
  },
  ducklake_file_variant_stats: {
    data_file_id: ID,
    table_id: ID,
    column_id: ID,
    variant_path: TEXT,
    shredded_type: TEXT,
    column_size_bytes: ID,
    value_count: ID,
    null_count: ID,
    min_value: TEXT,
    max_value: TEXT,
    contains_nan: 'B',
    extra_stats: TEXT,
  },
  ducklake_delete_file: {
    delete_file_id: 'BIGINT PRIMARY KEY',
    table_id: ID,
    begin_snapshot: ID,
    end_snapshot: ID,
    data_file_id: ID,
    path: TEXT,
    path_is_relative: 'B',
    format: TEXT,
    delete_count: ID,
    file_size_bytes: ID,
    footer_size: ID,
    encryption_key: TEXT,
    partial_max: ID,
  },
  ducklake_column: {
    column_id: ID,
    begin_snapshot: ID,
    end_snapshot: ID,
    table_id: ID,
    column_order: ID,
    column_name: TEXT,
    column_type: TEXT,
    initial_default: TEXT,
    default_value: TEXT,
    nulls_allowed: 'B',
    parent_column: ID,
    default_value_type: TEXT,
    default_value_dialect: TEXT,
  },
  ducklake_table_stats: { table_id: ID, record_count: ID, next_row_id: ID, file_size_bytes: ID },
  ducklake_table_column_stats: {
    table_id: ID,
    column_id: ID,
    contains_null: 'B',
    contains_nan: 'B',
    min_value: TEXT,
    max_value: TEXT,
    extra_stats: TEXT,
  },
  ducklake_partition_info: { partition_id: ID, table_id: ID, begin_snapshot: ID, end_snapshot: ID },
  ducklake_partition_column: {
    partition_id: ID,
    table_id: ID,
    partition_key_index: ID,
    column_id: ID,
    transform: TEXT,
  },
  ducklake_file_partition_value: {
    data_file_id: ID,
    table_id: ID,
    partition_key_index: ID,
    partition_value: TEXT,
  },
  ducklake_files_scheduled_for_deletion: {
    data_file_id: ID,
    path: TEXT,
    path_is_relative: 'B',
    schedule_start: 'T',
  },
  ducklake_inlined_data_tables: { table_id: ID, table_name: TEXT, schema_version: ID },
  ducklake_column_mapping: { mapping_id: ID, table_id: ID, type: TEXT },
  ducklake_name_mapping: {
    mapping_id: ID,
    column_id: ID,
    source_name: TEXT,
    target_field_id: ID,
    parent_column: ID,
    is_partition: 'B',
  },
  ducklake_schema_versions: { begin_snapshot: ID, schema_version: ID, table_id: ID },
  ducklake_macro: { schema_id: ID, macro_id: ID, macro_name: TEXT, begin_snapshot: ID, end_snapshot: ID },
  ducklake_macro_impl: { macro_id: ID, impl_id: ID, dialect: TEXT, sql: TEXT, type: TEXT },
  ducklake_macro_parameters: {
    macro_id: ID,
    impl_id: ID,
    column_id: ID,
    parameter_name: TEXT,
    parameter_type: TEXT,
    default_value: TEXT,
    default_value_type: TEXT,
  },
  ducklake_sort_info: { sort_id: ID, table_id: ID, begin_snapshot: ID, end_snapshot: ID },
  ducklake_sort_expression: {
    sort_id: ID,
    table_id: ID,
    sort_key_index: ID,
    expression: TEXT,
    dialect: TEXT,
    sort_direction: TEXT,
    null_order: TEXT,
  },
};

/**
 * What DuckDB does in this catalog: small changes are files as well, so that all rows are in files, and what it merges stays small
 * enough to be read whole.
 */
const OPTIONS = { data_inlining_row_limit: '0', target_file_size: String(32 * 1_024 ** 2) };

/** Makes the tables of an empty catalog. */
export async function createCatalog(query: Query, dialect: Dialect, dataPath: string): Promise<void> {
  const types = new Map([
    ['B', dialect.boolean],
    ['T', dialect.timestamp],
    ['U', dialect.uuid],
  ]);
  for (const [table, columns] of Object.entries(TABLES)) {
    const list = Object.entries(columns).map(([name, type]) => `"${name}" ${types.get(type) ?? type}`);
    await query(`create table ${table} (${list.join(', ')})`);
  }
  // The specification has no indexes; a lake of many small files needs them.
  await query('create index _tributary_files on ducklake_data_file (table_id, end_snapshot)');
  await query('create index _tributary_stats on ducklake_file_column_stats (data_file_id, column_id)');
  await insert(query, 'ducklake_snapshot', [[0, timeText(Date.now()), 0, 1, 0]]);
  await insert(query, 'ducklake_snapshot_changes', [[0, `created_schema:"${SCHEMA}"`, null, null, null]]);
  const metadata = { version: VERSION, created_by: 'tributary', data_path: dataPath, encrypted: 'false' };
  await insert(
    query,
    'ducklake_metadata',
    Object.entries({ ...metadata, ...OPTIONS }).map(([key, value]) => [key, value, null, null]),
  );
  await insert(query, 'ducklake_schema', [[0, newId(), 0, null, SCHEMA, `${SCHEMA}/`, TRUE]]);
}

export async function createLedger(query: Query): Promise<void> {
  await query(
    `create table ${LEDGER} (destination_id varchar not null, lane varchar not null, seq bigint not null, batch varchar not null,
       ranges varchar not null, counts varchar not null, loaded_at varchar not null, primary key (destination_id, lane, seq))`,
  );
}

/** The word itself: SQLite takes no boolean as a value. */
export const TRUE = Symbol('true');

const ROWS_AT_ONCE = 500;

/** Inserts rows with a value for each column. */
export async function insert(
  query: Query,
  table: string,
  rows: readonly (readonly (SqlValue | typeof TRUE)[])[],
): Promise<void> {
  for (let at = 0; at < rows.length; at += ROWS_AT_ONCE) {
    const some = rows.slice(at, at + ROWS_AT_ONCE);
    const list = some.map((row) => `(${row.map((value) => (value === TRUE ? 'true' : '?')).join(', ')})`);
    const values = some.flat().filter((value) => value !== TRUE);
    await query(`insert into ${table} values ${list.join(', ')}`, values);
  }
}

/** Runs a statement for many ids, with a list of them in place of `(?)`. */
export async function forIds(query: Query, ids: readonly number[], sql: string): Promise<readonly SqlRow[]> {
  const rows: SqlRow[] = [];
  for (let at = 0; at < ids.length; at += ROWS_AT_ONCE)
    rows.push(...(await query(sql.replace('(?)', `(${ids.slice(at, at + ROWS_AT_ONCE).join(', ')})`))));
  return rows;
}

/** An integer of the catalog: its digits, with one driver. */
export function integer(value: unknown): number {
  const number = Number(value);
  if (value === null || value === undefined || !Number.isSafeInteger(number))
    throw new TypeError(`no integer in the catalog: ${String(value)}`);
  return number;
}

/** A time as catalogs have it: of all digits the same ones, so that they compare as texts. */
export function timeText(ms: number): string {
  return new Date(ms).toISOString().replace('T', ' ').replace('Z', '+00');
}

/** Epoch ms of such a time; undefined for another text. */
export function timeOf(text: unknown): number | undefined {
  if (text instanceof Date) return text.getTime();
  const ms =
    typeof text === 'string' ? Date.parse(text.replace(' ', 'T').replace(/\+00(:00)?$/, 'Z')) : Number.NaN;
  return Number.isNaN(ms) ? undefined : ms;
}

/** The names of the files that loaders write. */
const OWN = /(?:^|\/)(?:tributary|bucket-(\d\d))-[0-9a-f-]{36}\.parquet$/;

/** Whether a loader wrote the file. */
export function isOwn(name: string): boolean {
  return OWN.test(name);
}

export function bucketOf(name: string): number | undefined {
  const [, bucket] = OWN.exec(name) ?? [];
  return bucket === undefined ? undefined : Number(bucket);
}

/** A value of a statement; an answer has dates, and integers as their digits, too. */
export type SqlValue = string | number | null;
export type SqlRow = Readonly<Record<string, unknown>>;

/** Runs one statement, with `?` for each value. */
export type Query = (sql: string, values?: readonly SqlValue[]) => Promise<readonly SqlRow[]>;

/** How the statements of a catalog are written for its database. */
export interface Dialect {
  readonly boolean: string;
  readonly timestamp: string;
  readonly uuid: string;
  /** Behind a text that is compared by its bytes. */
  readonly binary: string;
  /** The names of all tables. */
  readonly tables: string;
}

/**
 * The database of a catalog.
 *
 * Errors: `Unavailable` (also where the signal is aborted), `WarehouseRefused`.
 */
export interface CatalogDatabase {
  readonly dialect: Dialect;
  /** Makes the place of the tables. */
  prepare(query: Query): Promise<void>;
  /** Runs statements that change nothing. */
  read<T>(work: (query: Query) => Promise<T>, signal: AbortSignal): Promise<T>;
  /**
   * Runs statements in a transaction of their own, and commits it. Undefined where a key was there, which another transaction made:
   * then it is rolled back, as where `work` rejects.
   */
  transaction<T>(work: (query: Query) => Promise<T>, signal: AbortSignal): Promise<T | undefined>;
  close(): Promise<void>;
}
