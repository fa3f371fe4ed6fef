import type { Delivery } from '@tributary/core';
import pg from 'pg';
import type { RunningEngine } from '../../../engines/index.ts';
import { freshPrefix } from '../../../helpers/engines.ts';
import { startFaultyProxy } from '../suite/faulty-proxy.ts';
import { type ConnectorHarness, ENGINE_CONNECTORS, type ReceivedBody } from '../suite/harness.ts';

/** A table on a server started by the spec. Every harness has its own table, which the connector creates. */
export async function postgresHarness(server: RunningEngine): Promise<ConnectorHarness> {
  const url = new URL(server.url);
  const proxy = await startFaultyProxy({ host: url.hostname, port: Number(url.port) });
  const table = freshPrefix().replace('.', '_events');
  const reader = new pg.Client(server.url);
  await reader.connect();
  const at = (host: string) => ({
    host,
    port: proxy.port,
    tls: false,
    database: 'postgres',
    username: url.username,
    password: url.password,
    table: `public.${table}`,
    create_table: true,
  });
  return {
    settings: at('127.0.0.1'),
    hopeless: at('10.0.0.1'),
    connectors: ENGINE_CONNECTORS,
    ordered: false,
    idempotent: true,
    network: { proxy, at },
    received: () => rowsOf(reader, table),
    fail: async () => proxy.set('refuse'),
    mend: async () => proxy.set('pass'),
    close: async () => {
      await proxy.close();
      await reader.query(`drop table if exists ${table}`);
      await reader.end();
    },
  };
}

async function rowsOf(reader: pg.Client, table: string): Promise<readonly ReceivedBody[]> {
  const { rows: found } = await reader.query('select to_regclass($1) is not null as there', [table]);
  if (found[0]?.there !== true) return [];
  const { rows } = await reader.query(
    `select delivery_id as id, 'event' as type, event, rule_id, destination_id, attempt from ${table}`,
  );
  return rows as ReceivedBody[];
}

/** A timestamp that PostgreSQL cannot parse. */
export function spoil(delivery: Delivery): Delivery {
  return { ...delivery, event: { ...delivery.event, timestamp: 'no time' } };
}
