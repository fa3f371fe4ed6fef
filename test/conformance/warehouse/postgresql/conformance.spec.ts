import { type ColumnType, newId, type Warehouse } from '@tributary/core';
import pg from 'pg';
import { afterAll, describe } from 'vitest';
import type { RunningEngine } from '../../../engines/index.ts';
import { freshPrefix } from '../../../helpers/engines.ts';
import { postgresServer } from '../../../helpers/postgres.ts';
import {
  createTestConnectors,
  ENGINE_CONNECTORS,
  noEngine,
  WORKSPACE_ID,
} from '../../connector/suite/harness.ts';
import type { WarehouseHarness } from '../suite/harness.ts';
import { warehouseConformance } from '../suite/warehouse.conformance.ts';
import { startCommitProxy } from './commit-proxy.ts';

const server = await postgresServer();

describe.skipIf(server === undefined)('on a real engine', () => {
  afterAll(() => server?.stop());
  warehouseConformance('warehouse-postgresql', () =>
    server === undefined ? noEngine('postgres') : postgresqlHarness(server),
  );
});

const TYPES: Readonly<Record<string, ColumnType>> = {
  boolean: 'boolean',
  bigint: 'bigint',
  numeric: 'numeric',
  'timestamp with time zone': 'timestamp',
  text: 'text',
  json: 'json',
};

/** A schema of its own on a server of the spec, behind a proxy. */
async function postgresqlHarness({ url: address }: RunningEngine): Promise<WarehouseHarness> {
  const url = new URL(address);
  const proxy = await startCommitProxy({ host: url.hostname, port: Number(url.port) });
  const schema = freshPrefix().replace('.', '_"warehouse');
  const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`;
  const of = (table: string) => `${quoted(schema)}.${quoted(table)}`;
  const reader = new pg.Client({
    connectionString: address,
    types: { getTypeParser: () => (text: string) => text },
  });
  await reader.connect();
  const sql = async (text: string) => {
    await reader.query(text);
  };
  const id = newId();
  const opened: Warehouse[] = [];
  const connectors = createTestConnectors(ENGINE_CONNECTORS);
  const settings = {
    host: '127.0.0.1',
    port: proxy.port,
    tls: false,
    database: 'postgres',
    username: url.username,
    password: url.password,
    schema,
  };

  return {
    open() {
      const warehouse = connectors.warehouse('warehouse-postgresql', {
        id,
        workspaceId: WORKSPACE_ID,
        version: 1,
        settings,
      });
      if (warehouse === undefined) throw new Error('no such kind');
      opened.push(warehouse);
      return warehouse;
    },
    async rows(table) {
      const columns = await columnsOf(reader, schema, table);
      if (columns.size === 0) return [];
      const list = [...columns].map(([name, type]) =>
        type === 'timestamp'
          ? `to_char(${quoted(name)} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as ${quoted(name)}`
          : quoted(name),
      );
      const { rows } = await reader.query(`select ${list.join(', ')} from ${of(table)}`);
      return rows.map((row: Record<string, string | null>) =>
        Object.fromEntries(
          Object.entries(row).map(([name, value]) => [
            name,
            columns.get(name) === 'boolean' && value !== null ? value === 't' : value,
          ]),
        ),
      );
    },
    async type(table, column) {
      return (await columnsOf(reader, schema, table)).get(column);
    },
    byHand: {
      dropTable: (table) => sql(`drop table ${of(table)}`),
      dropColumn: (table, column) => sql(`alter table ${of(table)} drop column ${quoted(column)}`),
      retype: (table, column, type) =>
        sql(
          `alter table ${of(table)} alter column ${quoted(column)} type ${type} using ${quoted(column)}::text::${type}`,
        ),
      makeForeign: (table, column) =>
        sql(`alter table ${of(table)} drop column ${quoted(column)}, add column ${quoted(column)} point`),
      refuse: (table, column, value) =>
        sql(`alter table ${of(table)} add constraint picky check (${quoted(column)} <> '${value}')`),
      hold: (table, column) =>
        sql(`create view ${of('a_view')} as select ${quoted(column)} from ${of(table)}`),
      dropLedger: () => sql(`drop table ${of('_tributary_loads')}`),
    },
    loseNextCommit: () => proxy.loseNextCommit(),
    cutAfter: (bytes) => proxy.cutAfter(bytes),
    fail: async () => proxy.refuse(true),
    mend: async () => proxy.refuse(false),
    async close() {
      await Promise.all(opened.map((warehouse) => warehouse.close()));
      await connectors.close();
      await proxy.close();
      await sql(`drop schema if exists ${quoted(schema)} cascade`);
      await reader.end();
    },
  };
}

async function columnsOf(
  reader: pg.Client,
  schema: string,
  table: string,
): Promise<ReadonlyMap<string, ColumnType | undefined>> {
  const { rows } = await reader.query(
    'select column_name as name, data_type as type from information_schema.columns where table_schema = $1 and table_name = $2 order by ordinal_position',
    [schema, table],
  );
  return new Map(rows.map(({ name, type }: { name: string; type: string }) => [name, TYPES[type]]));
}
