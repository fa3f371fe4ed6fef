import type { Delivery } from '@tributary/core';
import pg from 'pg';
import { afterAll, describe, expect, it } from 'vitest';
import type { RunningEngine } from '../../../engines/index.ts';
import { freshPrefix } from '../../../helpers/engines.ts';
import { postgresServer } from '../../../helpers/postgres.ts';
import { connectorConformance } from '../suite/connector.conformance.ts';
import { startFaultyProxy } from '../suite/faulty-proxy.ts';
import {
  type ConnectorHarness,
  connectorOf,
  createTestConnectors,
  deliveries,
  destination,
  ENGINE_CONNECTORS,
  noEngine,
  type ReceivedBody,
  unhurried,
} from '../suite/harness.ts';
import { networkConformance } from '../suite/network.conformance.ts';

const server = await postgresServer();
const harness = () => (server === undefined ? noEngine('postgres') : postgresHarness(server));

describe.skipIf(server === undefined)('on a real engine', () => {
  afterAll(() => server?.stop());
  connectorConformance('postgres', harness);
  networkConformance('postgres', harness, spoil);

  describe('a row that the server refuses', () => {
    const sql = async (text: string) => {
      const client = new pg.Client(server?.url);
      await client.connect();
      try {
        await client.query(text);
      } finally {
        await client.end();
      }
    };
    /**
     * Sends 45 deliveries, some of them of the user Mallory, to a table that `prepare` makes reject those.
     */
    async function sendTo(prepare: (table: string) => string, spoiled: readonly number[]) {
      const place = await harness();
      const connectors = createTestConnectors(place.connectors);
      try {
        const connector = connectorOf(connectors, 'postgres');
        const to = destination(place.settings);
        expect(await connector.test(to, unhurried)).toMatchObject({ ok: true });
        await sql(prepare(String(place.settings.table)));
        const sent = deliveries(45).map((one, at) =>
          spoiled.includes(at) ? { ...one, event: { ...one.event, user_id: 'mallory' } } : one,
        );
        const results = await connector.deliver(to, sent, unhurried);
        const left = new Set((await place.received()).map(({ id }) => id));
        return { results, missing: sent.flatMap(({ id }, at) => (left.has(id) ? [] : [at])) };
      } finally {
        await connectors.close();
        await place.close();
      }
    }
    const raising = (table: string, condition: string, how: string) => `
      create or replace function ${table}_check() returns trigger language plpgsql as $$
      begin if ${condition} then raise exception 'no room for %', new.user_id ${how}; end if; return new; end $$;
      create trigger picky before insert on ${table} for each row execute function ${table}_check();`;

    it('was one with a character that PostgreSQL has no way to store', async () => {
      const place = await harness();
      const connectors = createTestConnectors(place.connectors);
      try {
        const to = destination(place.settings);
        await connectorOf(connectors, 'postgres').test(to, unhurried);
        const sent = deliveries(3).map((one, at) => ({
          ...one,
          event: { ...one.event, user_id: `u\0${at}`, properties: { 'a\0': ['b\0'.repeat(at), '\ud800'] } },
        }));
        const results = await connectorOf(connectors, 'postgres').deliver(to, sent, unhurried);
        expect(results.map(({ outcome }) => outcome)).toEqual(['delivered', 'delivered', 'delivered']);
        expect(await place.received()).toHaveLength(3);
      } finally {
        await connectors.close();
        await place.close();
      }
    });

    it.each(['P0001', '42501', '42703', 'ZZ001', '0A000'])(
      'by a trigger, with %s, affects no good one, and is dead-lettered with the reason',
      async (code) => {
        const prepare = (table: string) =>
          raising(table, "new.user_id = 'mallory'", `using errcode = '${code}'`);
        const { results, missing } = await sendTo(prepare, [7, 31]);
        expect(missing).toEqual([7, 31]);
        const reason = { outcome: 'dead', reason: expect.stringContaining(`(${code})`) };
        expect(results[31]).toMatchObject({ ...reason, response: 'no room for mallory' });
        expect(results.filter(({ outcome }) => outcome === 'delivered')).toHaveLength(43);
      },
    );

    it.each(['40001', 'XX000'])('by a trigger, with %s, waits alone', async (code) => {
      const prepare = (table: string) =>
        raising(table, "new.user_id = 'mallory'", `using errcode = '${code}'`);
      const { results, missing } = await sendTo(prepare, [44]);
      expect(missing).toEqual([44]);
      expect(results[44]).toMatchObject({ outcome: 'retry' });
    });

    it('by a policy affects no good one', async () => {
      const role = freshPrefix().replace('.', '_role');
      const place = await harness();
      const connectors = createTestConnectors(place.connectors);
      try {
        const connector = connectorOf(connectors, 'postgres');
        const { settings } = place;
        await connector.test(destination(settings), unhurried);
        await sql(`
          create role ${role} login password 'pass-of-a-role';
          grant insert, select on ${settings.table} to ${role};
          alter table ${settings.table} enable row level security;
          create policy honest on ${settings.table} using (true) with check (user_id <> 'user-12');`);
        const own = { ...settings, username: role, password: 'pass-of-a-role', create_table: false };
        const results = await connector.deliver(destination(own), deliveries(30), unhurried);
        expect(results.flatMap(({ outcome }, at) => (outcome === 'delivered' ? [] : [at]))).toEqual([12]);
        expect(results[12]).toMatchObject({ outcome: 'dead', reason: 'a policy refuses the row (42501)' });
        await sql(`revoke insert on ${settings.table} from ${role}`);
        const refused = await connector.deliver(destination(own), deliveries(2), unhurried);
        const denied = { outcome: 'dead', reason: 'permission denied (42501)' };
        expect(refused).toEqual([denied, denied]);
      } finally {
        await connectors.close();
        await place.close();
        await sql(`drop role ${role}`);
      }
    });
  });
});

/** A table on a server started by the spec. Every harness has its own table, which the connector creates. */
async function postgresHarness(server: RunningEngine): Promise<ConnectorHarness> {
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
function spoil(delivery: Delivery): Delivery {
  return { ...delivery, event: { ...delivery.event, timestamp: 'no time' } };
}
