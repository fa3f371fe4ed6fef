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

/** By the specification. Types that a database has not are those that DuckDB gives it in their place. */
const TABLES = `
  ducklake_metadata (key VARCHAR NOT NULL, value VARCHAR NOT NULL, scope VARCHAR, scope_id BIGINT);
  ducklake_snapshot (snapshot_id BIGINT PRIMARY KEY, snapshot_time TIMESTAMPTZ, schema_version BIGINT,
      next_catalog_id BIGINT, next_file_id BIGINT);
  ducklake_snapshot_changes (snapshot_id BIGINT PRIMARY KEY, changes_made VARCHAR, author VARCHAR,
      commit_message VARCHAR, commit_extra_info VARCHAR);
  ducklake_schema (schema_id BIGINT PRIMARY KEY, schema_uuid UUID, begin_snapshot BIGINT, end_snapshot BIGINT,
      schema_name VARCHAR, path VARCHAR, path_is_relative BOOLEAN);
  ducklake_table (table_id BIGINT, table_uuid UUID, begin_snapshot BIGINT, end_snapshot BIGINT, schema_id BIGINT,
      table_name VARCHAR, path VARCHAR, path_is_relative BOOLEAN);
  ducklake_view (view_id BIGINT, view_uuid UUID, begin_snapshot BIGINT, end_snapshot BIGINT, schema_id BIGINT,
      view_name VARCHAR, dialect VARCHAR, sql VARCHAR, column_aliases VARCHAR);
  ducklake_tag (object_id BIGINT, begin_snapshot BIGINT, end_snapshot BIGINT, key VARCHAR, value VARCHAR);
  ducklake_column_tag (table_id BIGINT, column_id BIGINT, begin_snapshot BIGINT, end_snapshot BIGINT, key VARCHAR,
      value VARCHAR);
  ducklake_data_file (data_file_id BIGINT PRIMARY KEY, table_id BIGINT, begin_snapshot BIGINT, end_snapshot BIGINT,
      file_order BIGINT, path VARCHAR, path_is_relative BOOLEAN, file_format VARCHAR, record_count BIGINT,
      file_size_bytes BIGINT, footer_size BIGINT, row_id_start BIGINT, partition_id BIGINT, encryption_key VARCHAR,
      mapping_id BIGINT, partial_max BIGINT);
  ducklake_file_column_stats (data_file_id BIGINT, table_id BIGINT, column_id BIGINT, column_size_bytes BIGINT,
      value_count BIGINT, null_count BIGINT, min_value VARCHAR, max_value VARCHAR, contains_nan BOOLEAN,
      extra_stats VARCHAR);
  ducklake_file_variant_stats (data_file_id BIGINT, table_id BIGINT, column_id BIGINT, variant_path VARCHAR,
      shredded_type VARCHAR, column_size_bytes BIGINT, value_count BIGINT, null_count BIGINT, min_value VARCHAR,
      max_value VARCHAR, contains_nan BOOLEAN, extra_stats VARCHAR);
  ducklake_delete_file (delete_file_id BIGINT PRIMARY KEY, table_id BIGINT, begin_snapshot BIGINT, end_snapshot BIGINT,
      data_file_id BIGINT, path VARCHAR, path_is_relative BOOLEAN, format VARCHAR, delete_count BIGINT,
      file_size_bytes BIGINT, footer_size BIGINT, encryption_key VARCHAR, partial_max BIGINT);
  ducklake_column (column_id BIGINT, begin_snapshot BIGINT, end_snapshot BIGINT, table_id BIGINT, column_order BIGINT,
      column_name VARCHAR, column_type VARCHAR, initial_default VARCHAR, default_value VARCHAR, nulls_allowed BOOLEAN,
      parent_column BIGINT, default_value_type VARCHAR, default_value_dialect VARCHAR);
  ducklake_table_stats (table_id BIGINT, record_count BIGINT, next_row_id BIGINT, file_size_bytes BIGINT);
  ducklake_table_column_stats (table_id BIGINT, column_id BIGINT, contains_null BOOLEAN, contains_nan BOOLEAN,
      min_value VARCHAR, max_value VARCHAR, extra_stats VARCHAR);
  ducklake_partition_info (partition_id BIGINT, table_id BIGINT, begin_snapshot BIGINT, end_snapshot BIGINT);
  ducklake_partition_column (partition_id BIGINT, table_id BIGINT, partition_key_index BIGINT, column_id BIGINT,
      transform VARCHAR);
  ducklake_file_partition_value (data_file_id BIGINT, table_id BIGINT, partition_key_index BIGINT,
      partition_value VARCHAR);
  ducklake_files_scheduled_for_deletion (data_file_id BIGINT, path VARCHAR, path_is_relative BOOLEAN,
      schedule_start TIMESTAMPTZ);
  ducklake_inlined_data_tables (table_id BIGINT, table_name VARCHAR, schema_version BIGINT);
  ducklake_column_mapping (mapping_id BIGINT, table_id BIGINT, type VARCHAR);
  ducklake_name_mapping (mapping_id BIGINT, column_id BIGINT, source_name VARCHAR, target_field_id BIGINT,
      parent_column BIGINT, is_partition BOOLEAN);
  ducklake_schema_versions (begin_snapshot BIGINT, schema_version BIGINT, table_id BIGINT);
  ducklake_macro (schema_id BIGINT, macro_id BIGINT, macro_name VARCHAR, begin_snapshot BIGINT, end_snapshot BIGINT);
  ducklake_macro_impl (macro_id BIGINT, impl_id BIGINT, dialect VARCHAR, sql VARCHAR, type VARCHAR);
  ducklake_macro_parameters (macro_id BIGINT, impl_id BIGINT, column_id BIGINT, parameter_name VARCHAR,
      parameter_type VARCHAR, default_value VARCHAR, default_value_type VARCHAR);
  ducklake_sort_info (sort_id BIGINT, table_id BIGINT, begin_snapshot BIGINT, end_snapshot BIGINT);
  ducklake_sort_expression (sort_id BIGINT, table_id BIGINT, sort_key_index BIGINT, expression VARCHAR, dialect VARCHAR,
      sort_direction VARCHAR, null_order VARCHAR)`;

/**
 * What DuckDB does in this catalog: small changes are files as well, so that all rows are in files, and what it merges stays small
 * enough to be read whole.
 */
const OPTIONS = { data_inlining_row_limit: '0', target_file_size: String(32 * 1_024 ** 2) };

/** Makes the tables of an empty catalog. */
export async function createCatalog(query: Query, dialect: Dialect, dataPath: string): Promise<void> {
  for (const table of TABLES.split(';'))
    await query(`create table ${table.trim().replaceAll(/[A-Z]+/g, (type) => dialect.types[type] ?? type)}`);
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
  /** Types in place of those of the specification, by their names. */
  readonly types: Readonly<Record<string, string>>;
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
