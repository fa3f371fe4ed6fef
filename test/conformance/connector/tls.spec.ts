import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { JsonObject } from '@tributary/core';
import { Redis } from 'ioredis';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freePort } from '../../engines/engine-process.ts';
import { selfSignedCertificate } from '../../helpers/certificate.ts';
import { eventually } from '../../helpers/client.ts';
import { engines, freshPrefix } from '../../helpers/engines.ts';
import { withAdmin } from '../../helpers/kafka.ts';
import { ownEngines } from '../../helpers/own-engines.ts';
import { postgresServer } from '../../helpers/postgres.ts';
import {
  connectorOf,
  createTestConnectors,
  delivery,
  destination,
  ENGINE_CONNECTORS,
  unhurried,
} from './suite/harness.ts';

const LONG = process.env.TRIBUTARY_TEST_LONG !== undefined;

/** A server that requires TLS and a password. */
interface SecuredEngine {
  /** Valid settings, by its address; `host` replaces the address by a name. */
  settings(host: string): JsonObject;
  readonly wrongPassword: JsonObject;
  stop(): Promise<void>;
}

/**
 * A real PostgreSQL that serves TLS with this certificate. The server writes the files itself, so that it
 * owns them.
 */
async function securedPostgres(): Promise<SecuredEngine> {
  const server = await postgresServer();
  if (server === undefined) throw new Error('no postgres');
  const { key, cert } = selfSignedCertificate();
  const url = new URL(server.url);
  const client = new pg.Client(server.url);
  await client.connect();
  const { rows } = await client.query('show data_directory');
  for (const [name, text] of Object.entries({ key, cert })) {
    const lines = `select unnest(string_to_array(${pg.escapeLiteral(text.trim())}, E'\n'))`;
    // PostgreSQL refuses a key that others may read.
    const write = `umask 077; cat > '${rows[0]?.data_directory}/${name}.pem'`;
    await client.query(`copy (${lines}) to program ${pg.escapeLiteral(write)}`);
  }
  for (const [name, value] of [
    ['ssl_cert_file', 'cert.pem'],
    ['ssl_key_file', 'key.pem'],
    ['ssl', 'on'],
  ])
    await client.query(`alter system set ${name} = '${value}'`);
  await client.query(`
    create table rules (line text);
    insert into rules values ('hostssl all all 127.0.0.1/32 scram-sha-256');
  `);
  const { rows: files } = await client.query('show hba_file');
  await client.query(`copy rules to ${pg.escapeLiteral(String(files[0]?.hba_file))}`);
  await client.query('select pg_reload_conf()');
  await eventually(
    async () => (await client.query('show ssl')).rows[0]?.ssl,
    (ssl) => ssl === 'on',
  );
  await client.end();
  const settings = (host: string) => ({
    host,
    port: Number(url.port),
    tls: true,
    ca: cert,
    database: 'postgres',
    username: url.username,
    password: url.password,
    table: 'public.events',
    create_table: true,
  });
  return {
    settings,
    wrongPassword: { ...settings('127.0.0.1'), password: 'wrong' },
    stop: () => server.stop(),
  };
}

async function securedRedis(): Promise<SecuredEngine> {
  const server = await ownEngines().redis.start();
  const { key, cert } = selfSignedCertificate();
  const folder = await mkdtemp(join(tmpdir(), 'tributary-redis-tls-'));
  const [keyFile, certFile] = [join(folder, 'key.pem'), join(folder, 'cert.pem')];
  await Promise.all([writeFile(keyFile, key), writeFile(certFile, cert)]);
  const port = await freePort();
  const client = new Redis(server.url);
  const set = (...pairs: string[]) => client.call('CONFIG', 'SET', ...pairs);
  await set('tls-cert-file', certFile, 'tls-key-file', keyFile, 'tls-ca-cert-file', certFile);
  await set('tls-auth-clients', 'no', 'tls-port', String(port), 'requirepass', 'right');
  client.disconnect();
  const settings = (host: string) => ({
    host,
    port,
    tls: true,
    ca: cert,
    username: 'default',
    password: 'right',
    database: 0,
    stream: 'events',
    max_length: 1_000,
    remember_hours: 25,
  });
  return {
    settings,
    wrongPassword: { ...settings('127.0.0.1'), password: 'wrong' },
    async stop() {
      await server.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function securedKafka(mechanism: 'plain' | 'scram-sha-256' | 'scram-sha-512'): Promise<SecuredEngine> {
  const server = await ownEngines().kafka.start({ secured: true });
  const { security } = server;
  if (security === undefined) throw new Error('it has no secured listeners');
  const topic = `${freshPrefix()}events`;
  await withAdmin(server.url, (admin) => admin.createTopics({ topics: [{ topic, numPartitions: 1 }] }));
  const settings = (host: string) => ({
    brokers: [security.saslTls.replace('127.0.0.1', host)],
    topic,
    tls: true,
    ca: security.ca,
    sasl_mechanism: mechanism,
    username: security.user.username,
    password: security.user.password,
  });
  return {
    settings,
    wrongPassword: { ...settings('127.0.0.1'), password: 'wrong' },
    stop: () => server.stop(),
  };
}

const ENGINES: Record<string, { readonly type: string; start(): Promise<SecuredEngine> }> = {
  PostgreSQL: { type: 'postgres', start: securedPostgres },
  Redis: { type: 'redis', start: securedRedis },
  'Kafka, SCRAM': { type: 'kafka', start: () => securedKafka('scram-sha-512') },
  ...(LONG && { 'Kafka, plain': { type: 'kafka', start: () => securedKafka('plain') } }),
};

describe.skipIf(engines() === undefined).each(Object.entries(ENGINES))('TLS to %s', (_, { type, start }) => {
  const connectors = createTestConnectors({
    ...ENGINE_CONNECTORS,
    resolve: async () => [{ address: '127.0.0.1', family: 4 }],
  });
  const other = selfSignedCertificate().cert;
  let engine: SecuredEngine;
  beforeAll(async () => {
    engine = await start();
  });
  afterAll(async () => {
    await connectors.close();
    await engine?.stop();
  });

  const deliver = async (settings: JsonObject) => {
    const [result] = await connectorOf(connectors, type).deliver(
      destination(settings),
      [delivery()],
      unhurried,
    );
    return result;
  };
  const test = (settings: JsonObject) => connectorOf(connectors, type).test(destination(settings), unhurried);

  it.each(['127.0.0.1', 'localhost'])('is reached by %s, with the configured authority', async (host) => {
    expect(await test(engine.settings(host))).toMatchObject({ ok: true });
    expect(await deliver(engine.settings(host))).toMatchObject({ outcome: 'delivered' });
  });

  it('is not believed when its certificate is for another name', async () => {
    const result = await deliver(engine.settings('other.example.com'));
    expect(result).toMatchObject({ outcome: 'retry', reason: expect.stringMatching(/certificate/i) });
  });

  it('does not trust a certificate of another authority, or of those the system knows', async () => {
    const { ca: _, ...known } = engine.settings('127.0.0.1');
    for (const settings of [{ ...known, ca: other }, known]) {
      const result = await deliver(settings);
      expect(result).toMatchObject({
        outcome: 'retry',
        reason: expect.stringMatching(/certificate|signed/i),
      });
    }
  });

  it('is not spoken to in the open', async () => {
    const result = await deliver({ ...engine.settings('127.0.0.1'), tls: false });
    expect(result?.outcome).not.toBe('delivered');
  });

  it('refuses a wrong password, and the reason does not contain it', async () => {
    const answer = await test(engine.wrongPassword);
    expect(answer).toMatchObject({ ok: false });
    expect(JSON.stringify(answer)).not.toContain(String(engine.wrongPassword.password));
    expect(await deliver(engine.wrongPassword)).not.toMatchObject({ outcome: 'delivered' });
  });
});
