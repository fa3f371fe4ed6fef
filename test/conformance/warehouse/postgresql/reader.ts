import type { ColumnType } from '@tributary/core';
import pg from 'pg';

/** Reads what warehouses wrote, each value as its text. */
export interface TextReader {
  query(
    text: string,
    values?: readonly unknown[],
  ): Promise<{ readonly rows: readonly Readonly<Record<string, string | null>>[] }>;
  end(): Promise<void>;
}

/** Connects again where the server was started anew. */
export function connectReader(address: string): TextReader {
  const pool = new pg.Pool({
    connectionString: address,
    types: { getTypeParser: () => (text: string) => text },
    max: 1,
  });
  pool.on('error', () => undefined);
  return {
    query: async (text, values) =>
      pool.query<Record<string, string | null>>(text, values === undefined ? undefined : [...values]),
    end: () => pool.end(),
  };
}

export function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

const TYPES: Readonly<Record<string, ColumnType>> = {
  boolean: 'boolean',
  bigint: 'bigint',
  numeric: 'numeric',
  'timestamp with time zone': 'timestamp',
  text: 'text',
  'character varying': 'text',
  json: 'json',
};

/** The columns of a table; none without it. */
async function columnsOf(
  reader: TextReader,
  schema: string,
  table: string,
): Promise<ReadonlyMap<string, ColumnType | undefined>> {
  const { rows } = await reader.query(
    'select column_name as name, data_type as type from information_schema.columns where table_schema = $1 and table_name = $2 order by ordinal_position',
    [schema, table],
  );
  return new Map(rows.map(({ name, type }) => [name ?? '', TYPES[type ?? '']]));
}

/** The rows of a table as `WarehouseHarness.rows` has them. */
async function rowsOf(
  reader: TextReader,
  schema: string,
  table: string,
): Promise<readonly Readonly<Record<string, string | boolean | null>>[]> {
  const columns = await columnsOf(reader, schema, table);
  if (columns.size === 0) return [];
  const list = [...columns].map(([name, type]) => {
    if (type === 'timestamp')
      return `to_char(${quoted(name)} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as ${quoted(name)}`;
    return type === 'numeric' ? `trim_scale(${quoted(name)}) as ${quoted(name)}` : quoted(name);
  });
  const { rows } = await reader.query(`select ${list.join(', ')} from ${quoted(schema)}.${quoted(table)}`);
  return rows.map((row) =>
    Object.fromEntries(
      Object.entries(row).map(([name, value]) => [
        name,
        columns.get(name) === 'boolean' && value !== null ? value === 't' : value,
      ]),
    ),
  );
}

/** The rows of a table; 0 without it. */
async function countOf(reader: TextReader, schema: string, table: string): Promise<number> {
  if ((await columnsOf(reader, schema, table)).size === 0) return 0;
  const { rows } = await reader.query(`select count(*) as n from ${quoted(schema)}.${quoted(table)}`);
  return Number(rows[0]?.n);
}

/** The message "command complete" of a commit. */
export const COMMITTED = { answer: 'C\0\0\0\x0bCOMMIT\0' };

/** Reads the tables of a schema, and changes them as a person would; `typeOf` names the type of a column. */
export function tablesOf(reader: TextReader, schema: string, typeOf: (type: ColumnType) => string = String) {
  const of = (table: string) => `${quoted(schema)}.${quoted(table)}`;
  const alter = async (table: string, change: string) => {
    await reader.query(`alter table ${of(table)} ${change}`);
  };
  const dropTable = async (table: string) => {
    await reader.query(`drop table ${of(table)}`);
  };
  return {
    rows: (table: string) => rowsOf(reader, schema, table),
    count: (table: string) => countOf(reader, schema, table),
    type: async (table: string, column: string) => (await columnsOf(reader, schema, table)).get(column),
    byHand: {
      dropTable,
      dropColumn: (table: string, column: string) => alter(table, `drop column ${quoted(column)}`),
      retype: (table: string, column: string, type: ColumnType) =>
        alter(
          table,
          `alter column ${quoted(column)} type ${typeOf(type)} using ${quoted(column)}::text::${typeOf(type)}`,
        ),
      addColumn: (table: string, column: string, type: ColumnType) =>
        alter(table, `add column ${quoted(column)} ${typeOf(type)}`),
      makeForeign: (table: string, column: string) =>
        alter(table, `drop column ${quoted(column)}, add column ${quoted(column)} point`),
      dropLedger: () => dropTable('_tributary_loads'),
    },
  };
}
