import { join } from 'node:path';
import { DatabaseSync, type SQLInputValue } from 'node:sqlite';
import { type Judge, openJudge } from '../../suite/duckdb.ts';
import type { WarehouseHarness } from '../../suite/harness.ts';
import { folderHarness, type HarnessFormat } from '../folder-harness.ts';
import { openDuckLake } from './duckdb.ts';

/** Runs a statement. */
type Query = (sql: string, ...values: SQLInputValue[]) => Rows;

/** Runs statements in the catalog, as another program does that follows the specification. */
export function inCatalog<T>(folder: string, work: (query: Query) => T): T {
  const database = new DatabaseSync(join(folder, 'metadata.sqlite'), { timeout: 5_000 });
  try {
    const query: Query = (sql, ...values) => database.prepare(sql).all(...values);
    database.exec('begin immediate');
    const result = work(query);
    database.exec('commit');
    return result;
  } finally {
    database.close();
  }
}

const NOW = 'end_snapshot is null';

/** Ends a table, or something of it, in a snapshot of its own. */
function ended(folder: string, change: string, end: (query: Query, snapshot: number) => void): void {
  inCatalog(folder, (query) => {
    const [last] = query('select * from ducklake_snapshot order by snapshot_id desc limit 1');
    const snapshot = Number(last?.snapshot_id) + 1;
    query(
      'insert into ducklake_snapshot values (?, ?, ?, ?, ?)',
      snapshot,
      String(last?.snapshot_time),
      Number(last?.schema_version) + 1,
      Number(last?.next_catalog_id),
      Number(last?.next_file_id),
    );
    query('insert into ducklake_snapshot_changes values (?, ?, null, null, null)', snapshot, change);
    end(query, snapshot);
  });
}

const OF_TABLE = `table_id = (select table_id from ducklake_table where table_name = ? and ${NOW})`;

/** The files and the columns of a table, for its name. */
export const FILES = `select path from ducklake_data_file where ${NOW} and ${OF_TABLE}`;
export const COLUMNS = `select column_id, column_name, column_type from ducklake_column where ${NOW} and ${OF_TABLE}
  order by column_order`;

type Rows = readonly Readonly<Record<string, unknown>>[];

/** A table by the catalog and the numbers of its columns, without DuckDB's extension. */
export function relationOf(
  folder: string,
  table: string,
  { files, columns }: { readonly files: Rows; readonly columns: Rows },
): string {
  if (files.length === 0) return `read_parquet('${folder}/none/*.parquet')`;
  const paths = files.map(({ path }) => `'${folder}/main/${table}/${path}'`);
  const fields = columns.map(({ column_id: id, column_name: name, column_type: type }) => {
    const ofDuckdb = { int64: 'bigint', float64: 'double' }[String(type)] ?? type;
    return `${id}: {name: '${name}', type: '${ofDuckdb}', default_value: NULL}`;
  });
  return `read_parquet([${paths.join(', ')}], schema = map {${fields.join(', ')}})`;
}

const DUCKLAKE: HarnessFormat = {
  settings: { format: 'ducklake' },
  relation: (folder, table) =>
    relationOf(
      folder,
      table,
      inCatalog(folder, (query) => ({ files: query(FILES, table), columns: query(COLUMNS, table) })),
    ),
  byHand: (folder) => ({
    async dropTable(table) {
      ended(folder, 'dropped_table:0', (query, snapshot) => {
        for (const kind of ['ducklake_data_file', 'ducklake_column', 'ducklake_table'])
          query(`update ${kind} set end_snapshot = ? where ${NOW} and ${OF_TABLE}`, snapshot, table);
      });
    },
    async dropColumn(table, column) {
      ended(folder, 'altered_table:0', (query, snapshot) => {
        const where = `${NOW} and column_name = ? and ${OF_TABLE}`;
        query(`update ducklake_column set end_snapshot = ? where ${where}`, snapshot, column, table);
      });
    },
    async dropLedger() {
      inCatalog(folder, (query) => query('drop table _tributary_loads'));
    },
  }),
  isCommit: () => false,
};

let losesCommit = false;
let isInstalled = false;

/** Has the answer to the next commit of a load be an error, once it is durable. */
function loseCommit(): void {
  losesCommit = true;
  if (isInstalled) return;
  isInstalled = true;
  const { exec, prepare } = DatabaseSync.prototype;
  let isLoad = false;
  DatabaseSync.prototype.prepare = function (sql, options) {
    isLoad ||= losesCommit && sql.startsWith('insert into _tributary_loads');
    return prepare.call(this, sql, options);
  };
  DatabaseSync.prototype.exec = function (sql) {
    exec.call(this, sql);
    if (sql !== 'commit' || !isLoad) return;
    isLoad = false;
    losesCommit = false;
    throw Object.assign(new Error('a fault of the test'), { errcode: IOERR });
  };
}
const IOERR = 10;

/** A DuckLake in a folder of its own, which the harness reads by its catalog. */
export async function ducklakeHarness(clock: () => number = Date.now) {
  const harness = await folderHarness(clock, DUCKLAKE);
  return { ...harness, loseNextCommit: loseCommit } satisfies Harness;
}

/** The same, read and changed by DuckDB. */
export async function duckdbHarness(extensions: string, clock: () => number = Date.now) {
  const harness = await ducklakeHarness(clock);
  let opened: Promise<Judge> | undefined;
  const judge = () => {
    opened ??= openDuckLake(extensions, `sqlite:${harness.folder}/metadata.sqlite`).then(openJudge);
    return opened;
  };
  const change = async (sql: string) => void (await (await judge()).query(sql));
  return {
    ...harness,
    judge,
    rows: async (table: string) => (await judge()).rows(ofLake(table)),
    type: async (table: string, column: string) => (await (await judge()).types(ofLake(table))).get(column),
    byHand: {
      dropTable: (table: string) => change(`drop table ${ofLake(table)}`),
      dropColumn: (table: string, column: string) =>
        change(`alter table ${ofLake(table)} drop column "${column}"`),
      dropLedger: harness.byHand.dropLedger,
    },
    async close() {
      await (await opened)?.close();
      await harness.close();
    },
  } satisfies Harness;
}

type Harness = WarehouseHarness & Readonly<Record<string, unknown>>;

/** A table as DuckDB names it. */
export function ofLake(table: string): string {
  return `lake."${table}"`;
}
