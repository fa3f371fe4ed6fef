import type { ColumnType } from '@tributary/core';
import { freshPrefix } from '../../../helpers/engines.ts';
import { startCommitProxy } from '../suite/commit-proxy.ts';
import { loadersOf, type ServerHarness } from '../suite/harness.ts';

const TYPES: Readonly<Record<string, ColumnType>> = {
  BOOLEAN: 'boolean',
  'NUMBER 0': 'bigint',
  'NUMBER 19': 'numeric',
  FLOAT: 'double',
  TIMESTAMP_TZ: 'timestamp',
  TEXT: 'text',
  VARIANT: 'json',
};
const SQL_TYPES: Readonly<Record<ColumnType, string>> = {
  boolean: 'boolean',
  bigint: 'number(38, 0)',
  numeric: 'number(38, 19)',
  double: 'float',
  timestamp: 'timestamp_tz',
  text: 'varchar',
  json: 'variant',
};

type Row = readonly (string | null)[];

/** A client of the server for what is done by hand and for what is read back. */
async function startReader(port: number) {
  const post = async (path: string, body: object, token?: string) => {
    const answer = await fetch(`http://127.0.0.1:${port}${path}`, {
      method: 'POST',
      body: JSON.stringify(body),
      headers: token === undefined ? {} : { authorization: `Snowflake Token="${token}"` },
    });
    const { success, data, message } = (await answer.json()) as {
      readonly success: boolean;
      readonly message: string;
      readonly data: { readonly token: string; readonly rowset?: readonly Row[] };
    };
    if (!success) throw new Error(`${message}: ${JSON.stringify(body).slice(0, 300)}`);
    return data;
  };
  const login = { data: { SESSION_PARAMETERS: {} } };
  const { token } = await post('/session/v1/login-request?databaseName=DB', login);
  return {
    sql: async (sqlText: string): Promise<readonly Row[]> =>
      (await post('/queries/v1/query-request', { sqlText }, token)).rowset ?? [],
    end: async () => {
      await post('/session?delete=true', {}, token);
    },
  };
}

/** A schema of its own on the server, behind a proxy. */
export async function snowflakeHarness(port: number) {
  const proxy = await startCommitProxy({ host: '127.0.0.1', port }, { request: '"sqlText":"commit"' });
  const reader = await startReader(port);
  const schema = freshPrefix()
    .replaceAll(/[^A-Za-z0-9]/g, '_')
    .toUpperCase();
  const quoted = (name: string) => `"${name.toUpperCase()}"`;
  const of = (table: string) => `"DB"."${schema}".${quoted(table)}`;
  const sql = async (text: string) => {
    await reader.sql(text);
  };
  const type = 'warehouse-snowflake';
  const settings = {
    account: 'fake',
    url: `http://127.0.0.1:${proxy.port}`,
    username: 'loader',
    password: 'pass-of-loader',
    warehouse: 'LOADING',
    database: 'db',
    schema,
  };
  const loaders = loadersOf(type, settings);
  const columnsOf = async (table: string) => {
    const rows = await reader.sql(`select column_name, data_type, numeric_scale
      from "DB".information_schema.columns
      where table_schema = '${schema}' and table_name = '${table.toUpperCase()}' order by ordinal_position`);
    return new Map(
      rows.map(([name, type, scale]) => [
        String(name).toLowerCase(),
        TYPES[type === 'NUMBER' ? `${type} ${scale}` : String(type)],
      ]),
    );
  };
  return {
    destination: { type, settings },
    sql: (text: (of: (name: string) => string) => string) => reader.sql(text(of)),
    open: loaders.open,
    async rows(table) {
      const columns = [...(await columnsOf(table))];
      if (columns.length === 0) return [];
      const list = columns.map(([name, type]) => {
        if (type === 'timestamp')
          return `to_varchar(convert_timezone('UTC', ${quoted(name)}), 'YYYY-MM-DD"T"HH24:MI:SS.FF3') || 'Z'`;
        if (type === 'json') return `to_json(${quoted(name)})`;
        if (type === 'numeric') return `regexp_replace(to_varchar(${quoted(name)}), '[.]?0+$', '')`;
        return `to_varchar(${quoted(name)})`;
      });
      const aliased = list.map((expression, at) => `${expression} as c${at}`);
      const rows = await reader.sql(`select ${aliased.join(', ')} from ${of(table)}`);
      return rows.map((row) =>
        Object.fromEntries(
          columns.map(([name, type], at) => {
            const value = row[at] ?? null;
            return [name, type === 'boolean' && value !== null ? value === 'true' : value];
          }),
        ),
      );
    },
    async count(table) {
      if ((await columnsOf(table)).size === 0) return 0;
      const [row] = await reader.sql(`select count(*) as n from ${of(table)}`);
      return Number(row?.[0]);
    },
    async type(table, column) {
      return (await columnsOf(table)).get(column);
    },
    byHand: {
      dropTable: (table) => sql(`drop table ${of(table)}`),
      dropColumn: (table, column) => sql(`alter table ${of(table)} drop column ${quoted(column)}`),
      async retype(table, column, type) {
        await sql(`alter table ${of(table)} add column "OTHER" ${SQL_TYPES[type]}`);
        await sql(`update ${of(table)} set "OTHER" = cast(${quoted(column)} as ${SQL_TYPES[type]})`);
        await sql(`alter table ${of(table)} drop column ${quoted(column)}`);
        await sql(`alter table ${of(table)} rename column "OTHER" to ${quoted(column)}`);
      },
      addColumn: (table, column, type) =>
        sql(`alter table ${of(table)} add column ${quoted(column)} ${SQL_TYPES[type]}`),
      async makeForeign(table, column) {
        await sql(`alter table ${of(table)} drop column ${quoted(column)}`);
        await sql(`alter table ${of(table)} add column ${quoted(column)} date`);
      },
      dropLedger: () => sql(`drop table ${of('_tributary_loads')}`),
    },
    ...proxy.faults,
    async close() {
      await loaders.close();
      await proxy.close();
      await sql(`drop schema if exists "DB"."${schema}" cascade`);
      await reader.end();
    },
  } satisfies ServerHarness & Readonly<Record<string, unknown>>;
}
