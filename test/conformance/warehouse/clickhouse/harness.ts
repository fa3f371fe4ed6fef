import { createClient } from '@clickhouse/client';
import type { ColumnType } from '@tributary/core';
import type { RunningEngine } from '../../../engines/index.ts';
import { freshPrefix } from '../../../helpers/engines.ts';
import { startCommitProxy } from '../suite/commit-proxy.ts';
import { loadersOf, type ServerHarness } from '../suite/harness.ts';

const TYPES: Readonly<Record<string, ColumnType>> = {
  'Nullable(Bool)': 'boolean',
  'Nullable(Int64)': 'bigint',
  'Nullable(Decimal(76, 30))': 'numeric',
  'Nullable(Float64)': 'double',
  "Nullable(DateTime64(6, 'UTC'))": 'timestamp',
  'Nullable(String)': 'text',
  String: 'text',
};

/** The statement that a batch is loaded with. */
const COMMIT = { request: '`_tributary_loads` (destination_id' };

/** A database of its own on a server of the spec, behind a proxy. */
export async function clickhouseHarness({ url: address }: RunningEngine) {
  const url = new URL(address);
  const proxy = await startCommitProxy({ host: url.hostname, port: Number(url.port) }, COMMIT);
  const database = freshPrefix().replace('.', '_`"warehouse');
  const quoted = (name: string) => `\`${name.replaceAll('`', '\\`')}\``;
  const of = (table: string) => `${quoted(database)}.${quoted(table)}`;
  const reader = createClient({
    url: `http://${url.host}`,
    username: url.username,
    password: url.password,
    clickhouse_settings: {
      wait_end_of_query: 1,
      mutations_sync: '2',
      output_format_json_quote_64bit_integers: 1,
      output_format_json_quote_decimals: 1,
      output_format_json_quote_64bit_floats: 1,
      date_time_output_format: 'iso',
    },
  });
  const sql = async (query: string) => {
    await reader.command({ query });
  };
  const rowsOf = async (query: string) => {
    const result = await reader.query({ query, format: 'JSONEachRow' });
    return result.json<Record<string, string | boolean | null>>();
  };
  const columnsOf = async (table: string) => {
    const query = `select name, type from system.columns where database = '${database.replaceAll('`', '\\`')}' and table = '${table}'`;
    return new Map((await rowsOf(query)).map(({ name, type }) => [String(name), String(type)]));
  };
  const type = 'warehouse-clickhouse';
  const settings = {
    host: '127.0.0.1',
    port: proxy.port,
    tls: false,
    database,
    username: url.username,
    password: url.password,
  };
  const loaders = loadersOf(type, settings);
  const sqlType = (type: ColumnType) => Object.entries(TYPES).find(([, known]) => known === type)?.[0];
  return {
    destination: { type, settings },
    /** Runs a statement as the owner of the tables; `of` qualifies a name. */
    sql: (text: (of: (table: string) => string) => string) => sql(text(of)),
    query: (text: (of: (table: string) => string) => string) => rowsOf(text(of)),
    open: loaders.open,
    async rows(table) {
      const columns = await columnsOf(table);
      if (columns.size === 0) return [];
      const rows = await rowsOf(`select * from ${of(table)}`);
      const isTime = (name: string) => columns.get(name)?.includes('DateTime64') === true;
      return rows.map((row) =>
        Object.fromEntries(
          Object.entries(row).map(([name, value]) => [
            name,
            isTime(name) && typeof value === 'string' ? value.replace(/000Z$/, 'Z') : value,
          ]),
        ),
      );
    },
    async count(table) {
      if ((await columnsOf(table)).size === 0) return 0;
      const [row] = await rowsOf(`select count() as n from ${of(table)}`);
      return Number(row?.n);
    },
    async type(table, column) {
      return TYPES[(await columnsOf(table)).get(column) ?? ''];
    },
    byHand: {
      dropTable: (table) => sql(`drop table ${of(table)} sync`),
      dropColumn: (table, column) => sql(`alter table ${of(table)} drop column ${quoted(column)}`),
      retype: (table, column, type) =>
        sql(`alter table ${of(table)} modify column ${quoted(column)} ${sqlType(type)}`),
      addColumn: (table, column, type) =>
        sql(`alter table ${of(table)} add column ${quoted(column)} ${sqlType(type)}`),
      async makeForeign(table, column) {
        // A column of the key stays as it is for ever: the table is made anew.
        if (column === 'id')
          await sql(
            `create or replace table ${of(table)} (id Array(UInt8), loaded_at Nullable(DateTime64(6, 'UTC'))) engine = MergeTree order by tuple()`,
          );
        else
          await sql(
            `alter table ${of(table)} drop column ${quoted(column)}, add column ${quoted(column)} Array(UInt8)`,
          );
      },
      refuse: (table, column, value) =>
        sql(`alter table ${of(table)} add constraint picky check ${quoted(column)} != '${value}'`),
      hold: (table, column) =>
        sql(`alter table ${of(table)} add index held bitAnd(${quoted(column)}, 1) type set(2)`),
      dropLedger: () => sql(`drop table ${of('_tributary_loads')} sync`),
    },
    ...proxy.faults,
    async close() {
      await loaders.close();
      await proxy.close();
      await sql(`drop database if exists ${quoted(database)} sync`);
      await reader.close();
    },
  } satisfies ServerHarness & Readonly<Record<string, unknown>>;
}
