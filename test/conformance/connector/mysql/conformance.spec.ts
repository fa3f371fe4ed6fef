import { access, constants, writeFile } from 'node:fs/promises';
import type { Socket } from 'node:net';
import { delimiter, join } from 'node:path';
import type { Delivery, JsonObject } from '@tributary/core';
import mysql from 'mysql2/promise';
import { afterAll, describe, expect, it, onTestFinished } from 'vitest';
import { type Command, freePort, startEngine } from '../../../engines/engine-process.ts';
import { EngineMissing, type Machine, type RunningEngine } from '../../../engines/index.ts';
import { runTool } from '../../../engines/programs.ts';
import { selfSignedCertificate } from '../../../helpers/certificate.ts';
import { freshPrefix } from '../../../helpers/engines.ts';
import { testMachine } from '../../../helpers/own-engines.ts';
import { startServer } from '../programs/hostile-endpoints.ts';
import { connectorConformance } from '../suite/connector.conformance.ts';
import { startFaultyProxy } from '../suite/faulty-proxy.ts';
import {
  type ConnectorHarness,
  connectorOf,
  createTestConnectors,
  deliveries,
  delivery,
  destination,
  ENGINE_CONNECTORS,
  type ReceivedBody,
  unhurried,
} from '../suite/harness.ts';
import { networkConformance } from '../suite/network.conformance.ts';

const MISSING = 'install MariaDB (Debian: apt-get install mariadb-server-core mariadb-client-core)';
const PASSWORD = 'a-password-of-tests';
const { key, cert } = selfSignedCertificate();

/** A MariaDB with TLS and the database `events`. Undefined, with a warning, where there is none; never in CI. */
async function mariadb(): Promise<RunningEngine | undefined> {
  if (process.env.TRIBUTARY_TEST_ENGINES === '0' && process.env.CI === undefined) return undefined;
  const machine = testMachine();
  try {
    return await startEngine({
      name: 'mariadb',
      logFolder: undefined,
      prepare: (folder) => prepare(machine, folder),
    });
  } catch (error) {
    if (process.env.CI !== undefined || !(error instanceof EngineMissing)) throw error;
    console.warn(`NO MARIADB, its tests are SKIPPED: ${error.message}`);
    return undefined;
  }
}

async function prepare({ engineEnv: env }: Machine, folder: string): Promise<Command> {
  const command = await programIn(['/usr/sbin', ...(env.PATH ?? '').split(delimiter)]);
  const [data, keyFile, certFile, begin] = ['data', 'key.pem', 'cert.pem', 'begin.sql'].map((name) =>
    join(folder, name),
  );
  await writeFile(keyFile ?? '', key);
  await writeFile(certFile ?? '', cert);
  await writeFile(
    begin ?? '',
    `create database events;\ncreate user tributary identified by '${PASSWORD}';\ngrant all on *.* to tributary;\n`,
  );
  const user = process.getuid?.() === 0 ? ['--user=root'] : [];
  const common = ['--no-defaults', `--datadir=${data}`, ...user];
  await runTool(
    'mariadb-install-db',
    [...common, '--auth-root-authentication-method=normal', '--skip-test-db'],
    { env, missing: MISSING },
  );
  const port = await freePort();
  const settings = {
    port,
    'bind-address': '127.0.0.1',
    'skip-name-resolve': 1,
    socket: join(folder, 'socket'),
    'init-file': begin,
    'ssl-key': keyFile,
    'ssl-cert': certFile,
    'innodb-flush-log-at-trx-commit': 0,
    'innodb-buffer-pool-size': '32M',
  };
  const url = `mysql://tributary:${PASSWORD}@127.0.0.1:${port}/events`;
  return {
    command,
    args: [...common, ...Object.entries(settings).map(([name, value]) => `--${name}=${value}`)],
    url,
    env,
    isReady: async () => {
      await (await mysql.createConnection(url)).end();
      return true;
    },
    missing: MISSING,
  };
}

async function programIn(folders: readonly string[]): Promise<string> {
  for (const folder of folders) {
    const file = join(folder, 'mariadbd');
    const isThere = await access(file, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (isThere) return file;
  }
  throw new EngineMissing(`no MariaDB server: ${MISSING}`);
}

async function openHarness({ url }: RunningEngine): Promise<ConnectorHarness> {
  const { port } = new URL(url);
  const proxy = await startFaultyProxy({ host: '127.0.0.1', port: Number(port) });
  const table = freshPrefix().replaceAll('.', '_');
  const reader = await mysql.createConnection(url);
  const at = (host: string) => ({
    host,
    port: proxy.port,
    tls: false,
    ca: cert,
    database: 'events',
    username: 'tributary',
    password: PASSWORD,
    table,
    create_table: true,
  });
  return {
    settings: at('127.0.0.1'),
    hopeless: at('10.0.0.1'),
    connectors: ENGINE_CONNECTORS,
    ordered: false,
    idempotent: true,
    network: { proxy, at },
    async received() {
      const [found] = await reader.query('show tables like ?', [table]);
      if (!Array.isArray(found) || found.length === 0) return [];
      const [rows] = await reader.query(
        `select delivery_id as id, 'event' as type, event, rule_id, destination_id, attempt from ${table}`,
      );
      // MariaDB has JSON as text.
      return (rows as (ReceivedBody & { readonly event: unknown })[]).map(({ event, ...row }) => ({
        ...row,
        event: typeof event === 'string' ? (JSON.parse(event) as JsonObject) : event,
      }));
    },
    fail: async () => proxy.set('refuse'),
    mend: async () => proxy.set('pass'),
    close: async () => {
      await proxy.close();
      await reader.query(`drop table if exists ${table}`);
      await reader.end();
    },
  };
}

/** A timestamp that the server cannot parse. */
function spoil(delivery: Delivery): Delivery {
  return { ...delivery, event: { ...delivery.event, timestamp: 'no time' } };
}

const server = await mariadb();

describe.skipIf(server === undefined)('on a real server', () => {
  afterAll(() => server?.stop());
  const harness = () => {
    if (server === undefined) throw new Error('no MariaDB in this run');
    return openHarness(server);
  };
  connectorConformance('mysql', harness);
  networkConformance('mysql', harness, spoil);

  const connect = async () => {
    const place = await harness();
    const connectors = createTestConnectors({
      ...place.connectors,
      resolve: async () => [{ address: '127.0.0.1', family: 4 }],
    });
    onTestFinished(async () => {
      await connectors.close();
      await place.close();
    });
    return { place, connector: connectorOf(connectors, 'mysql') };
  };

  it.each([
    ["signal sqlstate '45000' set message_text = 'no room for mallory'", 'dead', '1644'],
    ['signal sqlstate \'40001\' set mysql_errno = 1213, message_text = "busy"', 'retry', '1213'],
  ])('a row that a trigger refuses affects no other: %s', async (refusal, outcome, code) => {
    const { place, connector } = await connect();
    const to = destination(place.settings);
    expect(await connector.test(to, unhurried)).toMatchObject({ ok: true });
    const admin = await mysql.createConnection(server?.url ?? '');
    const { table } = place.settings;
    await admin.query(
      `create trigger ${table}_picky before insert on ${table} for each row begin if new.user_id = 'mallory' then ${refusal}; end if; end`,
    );
    await admin.end();
    const sent = deliveries(45).map((one, at) =>
      at === 7 ? { ...one, event: { ...one.event, user_id: 'mallory' } } : one,
    );
    const results = await connector.deliver(to, sent, unhurried);
    expect(results[7]).toMatchObject({ outcome, reason: expect.stringContaining(code) });
    expect(results.filter((result) => result.outcome === 'delivered')).toHaveLength(44);
    expect(await place.received()).toHaveLength(44);
  });

  it('texts are what they are: quotes, backslashes, statements, U+0000 and half of a surrogate pair', async () => {
    const { place, connector } = await connect();
    const texts = ["'; drop table x; -- ", '\\', "\\'", '"`', 'a\0b', '\ud83d', '😀', '?'];
    const sent = deliveries(texts.length).map((one, at) => ({
      ...one,
      event: { ...one.event, user_id: texts[at] ?? '', properties: { text: texts[at] ?? '' } },
    }));
    const results = await connector.deliver(destination(place.settings), sent, unhurried);
    expect(results.map(({ outcome }) => outcome)).toEqual(texts.map(() => 'delivered'));
    const stored = new Map((await place.received()).map(({ id, event }) => [id, event]));
    for (const [at, { id }] of sent.entries()) {
      const text = (texts[at] ?? '').replaceAll('\0', '\ufffd').toWellFormed();
      expect(stored.get(id)).toMatchObject({ user_id: text, properties: { text } });
    }
  });

  it.each<readonly [string, JsonObject, RegExp]>([
    ['127.0.0.1', {}, /^$/],
    ['localhost', {}, /^$/],
    ['other.example.com', {}, /^certificate not accepted/],
    ['127.0.0.1', { ca: selfSignedCertificate().cert }, /^certificate not accepted/],
    ['127.0.0.1', { password: 'wrong' }, /^not authenticated \(1045\)$/],
    ['127.0.0.1', { database: 'elsewhere' }, /^the database is not there \(1049\)$/],
  ])('TLS to %s', async (host, changed, reason) => {
    const { place, connector } = await connect();
    const { network } = place;
    const to = destination({ ...network?.at(host), ...changed, tls: true });
    const told = await connector.test(to, unhurried);
    expect('reason' in told ? told.reason : '').toMatch(reason);
    const [result] = await connector.deliver(to, [delivery()], unhurried);
    expect(result?.outcome === 'delivered').toBe(told.ok);
  });
});

const packet = (sequence: number, ...parts: readonly (number | string | Buffer)[]) => {
  const body = Buffer.concat(
    parts.map((part) => (typeof part === 'number' ? Buffer.from([part]) : Buffer.from(part as string))),
  );
  const head = Buffer.alloc(4);
  head.writeUIntLE(body.length, 0, 3);
  head[3] = sequence;
  return Buffer.concat([head, body]);
};
const greeting = (plugin = 'mysql_native_password') =>
  // Version, thread, half of the scramble, flags (4.1, secure, plugins), the other half, the plugin.
  packet(0, 10, '8.0.0\0', Buffer.alloc(4), 'abcdefgh\0', Buffer.from([0x00, 0x82, 45, 2, 0, 0x08, 0, 21]),
    Buffer.alloc(10), 'abcdefghijkl\0', `${plugin}\0`); // biome-ignore format: the fields of the packet
const OK = Buffer.from([0, 0, 0, 2, 0, 0, 0]);

/** Sends the greeting, then the answers to what the client sends, one by one. */
const answering =
  (...answers: readonly Buffer[]) =>
  (socket: Socket) => {
    const left = [...answers];
    socket.write(greeting());
    socket.on('data', () => {
      const answer = left.shift();
      if (answer !== undefined) socket.write(answer);
    });
  };

it.each<readonly [string, object | RegExp, (socket: Socket) => void]>([
  [
    'has no connection left',
    { throttled: true },
    (socket) => socket.end(packet(0, 0xff, 0x10, 0x04, 'Too many')),
  ],
  ['speaks another protocol', /cannot be understood/, (socket) => socket.write(packet(0, 9, '3.23\0'))],
  ['announces 16 MB', /too long/, (socket) => socket.write(Buffer.from([0xff, 0xff, 0xff, 0]))],
  ['counts wrong', /cannot be understood/, (socket) => socket.write(packet(7, 10, '8.0.0\0'))],
  ['asks for the password', /in clear/, answering(packet(2, 0xfe, 'mysql_clear_password\0'))],
  [
    'asks for it encrypted',
    /in clear/,
    answering(packet(2, 0xfe, 'sha256_password\0', 'abcdefghijklmnopqrst\0')),
  ],
  [
    'sends a key for it',
    /in clear/,
    answering(packet(2, 0xfe, 'caching_sha2_password\0', 'abcdefghijklmnopqrst\0'), packet(4, 1, 4)),
  ],
  ['asks for a file', /cannot be understood/, answering(packet(2, OK), packet(1, 0xfb, '/etc/passwd'))],
  ['answers with rows', /cannot be understood/, answering(packet(2, OK), packet(1, 1))],
  [
    'goes on for ever',
    /cannot be understood|not authenticated/,
    answering(Buffer.concat(Array(9_000).fill(packet(2, 1, 'x'.repeat(99))))),
  ],
])('a server that %s', async (_, expected, serve) => {
  const hostile = await startServer(serve);
  const connectors = createTestConnectors({ egressAllow: ['127.0.0.0/8'], timeoutMs: 5_000 });
  onTestFinished(async () => {
    await connectors.close();
    await hostile.close();
  });
  const settings = {
    host: '127.0.0.1',
    port: hostile.port,
    tls: false,
    database: 'd',
    username: 'u',
    password: 'p',
  };
  const to = destination(settings);
  const [result] = await connectorOf(connectors, 'mysql').deliver(to, [delivery()], unhurried);
  if (expected instanceof RegExp) expect(result).toMatchObject({ reason: expect.stringMatching(expected) });
  else expect(result).toMatchObject(expected);
  await connectors.close();
  await expect.poll(() => hostile.open.size).toBe(0);
});
