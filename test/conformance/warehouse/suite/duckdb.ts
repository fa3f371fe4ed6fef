import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import type { ColumnType } from '@tributary/core';

/** A value as rows of a harness have it: digits of numbers, texts, JSON as its text, ISO 8601 in UTC of times. */
export type JudgedValue = string | boolean | null;
export type JudgedRow = Readonly<Record<string, JudgedValue>>;

/** DuckDB as a judge of tables, beside the readers of the engines themselves. */
export interface Judge {
  /** The rows of a relation, which is what stands behind `from`; none where its files are missing. */
  rows(relation: string): Promise<readonly JudgedRow[]>;
  /** The types of its columns as the port names them. */
  types(relation: string): Promise<ReadonlyMap<string, ColumnType | undefined>>;
  /**
   * Compares these columns of a relation with rows that are expected, each as often as it is there. By DuckDB alone: it
   * reads the expected rows from lines of JSON. Returns some rows that are missing, and some that should not be there.
   */
  differences(
    relation: string,
    columns: readonly string[],
    expected: Iterable<JudgedRow>,
  ): Promise<{ readonly missing: readonly JudgedRow[]; readonly surplus: readonly JudgedRow[] }>;
  /** A relation of texts that has these columns of rows which were read otherwise. */
  relation(columns: readonly string[], rows: Iterable<JudgedRow>): Promise<string>;
  query(sql: string): Promise<readonly JudgedRow[]>;
  close(): Promise<void>;
}

/** The files of a table of a lake, as documents tell readers to read them. */
export function parquetTable(folder: string, table: string): string {
  const pattern = `${folder}/${table}/**/*.parquet`.replaceAll("'", "''");
  return `read_parquet('${pattern}', union_by_name = true, hive_partitioning = true)`;
}

const SHOWN = 20;

/** A connection of DuckDB. */
export interface DuckdbConnection {
  query(sql: string): Promise<readonly JudgedRow[]>;
  close(): Promise<void>;
}

/** A connection in this process; `allow_unsigned_extensions` lets extensions of a package registry be loaded. */
export async function connectDuckdb(): Promise<DuckdbConnection> {
  const options = { threads: '1', memory_limit: '512MB', allow_unsigned_extensions: 'true' };
  const instance = await DuckDBInstance.create(':memory:', options);
  const connection = await instance.connect();
  await connection.run("set TimeZone = 'UTC'");
  return {
    async query(sql) {
      const reader = await connection.runAndReadAll(sql);
      return reader.getRowObjectsJson() as unknown as readonly JudgedRow[];
    },
    async close() {
      connection.closeSync();
      instance.closeSync();
    },
  };
}

export async function openJudge(connection?: DuckdbConnection): Promise<Judge> {
  const { query, close } = connection ?? (await connectDuckdb());
  const folder = await mkdtemp(join(tmpdir(), 'tributary-judge-'));
  let files = 0;

  const columnsOf = async (relation: string) => {
    try {
      const found = await query(`describe select * from ${relation}`);
      return found.map(({ column_name: name, column_type: type }) => [String(name), String(type)] as const);
    } catch (error) {
      if (/No files found|Table with name \S+ does not exist/.test(String(error))) return [];
      throw error;
    }
  };
  const judged = async (relation: string, wanted?: readonly string[]) => {
    const columns = await columnsOf(relation);
    const names = wanted ?? columns.map(([name]) => name);
    const types = new Map(columns);
    return names.map((name) => `${textOf(name, types.get(name))} as ${quoted(name)}`).join(', ');
  };

  const textsOf = async (columns: readonly string[], rows: Iterable<JudgedRow>) => {
    const path = join(folder, `${files++}.ndjson`);
    const lines = Array.from(
      rows,
      (row) => `${JSON.stringify(Object.fromEntries(columns.map((name) => [name, row[name] ?? null])))}\n`,
    );
    await writeFile(path, lines.join(''));
    const texts = columns.map((name) => `${quoted(name)}: 'VARCHAR'`).join(', ');
    return `read_json('${path}', format = 'newline_delimited', columns = {${texts}})`;
  };

  return {
    query,
    relation: textsOf,
    async rows(relation) {
      const list = await judged(relation);
      return list === '' ? [] : query(`select ${list} from ${relation}`);
    },
    async types(relation) {
      return new Map((await columnsOf(relation)).map(([name, type]) => [name, portType(type)]));
    },
    async differences(relation, columns, expected) {
      const wanted = `select ${columns.map(quoted).join(', ')} from ${await textsOf(columns, expected)}`;
      const list = await judged(relation, columns);
      const found = list === '' ? `${wanted} limit 0` : `select ${list} from ${relation}`;
      const asText = `select ${columns.map((name) => `${quoted(name)}::varchar as ${quoted(name)}`).join(', ')} from (${found})`;
      return {
        missing: await query(`(${wanted}) except all (${asText}) limit ${SHOWN}`),
        surplus: await query(`(${asText}) except all (${wanted}) limit ${SHOWN}`),
      };
    },
    async close() {
      await close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** The value of a column as a text; a boolean stays one. */
function textOf(name: string, type = 'NULL'): string {
  const column = type === 'NULL' ? 'null' : quoted(name);
  if (type === 'BOOLEAN') return column;
  if (type === 'TIMESTAMP WITH TIME ZONE')
    return `replace(strftime(${column}, '%Y-%m-%dT%H:%M:%S.%fZ'), '000Z', 'Z')`;
  if (type.startsWith('DECIMAL')) return `rtrim(rtrim(${column}::varchar, '0'), '.')`;
  return `${column}::varchar`;
}

function portType(type: string): ColumnType | undefined {
  if (type.startsWith('DECIMAL')) return 'numeric';
  return TYPES.get(type);
}

const TYPES: ReadonlyMap<string, ColumnType> = new Map([
  ['BOOLEAN', 'boolean'],
  ['BIGINT', 'bigint'],
  ['DOUBLE', 'double'],
  ['TIMESTAMP WITH TIME ZONE', 'timestamp'],
  ['VARCHAR', 'text'],
  ['JSON', 'json'],
]);
