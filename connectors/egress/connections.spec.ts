import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { type JsonObject, NO_METRICS } from '@tributary/core';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createKafkaConnector } from '../kafka/connector.ts';
import { createPostgresConnector } from '../postgres/connector.ts';
import { createRedisConnector } from '../redis/connector.ts';
import { createS3Connector } from '../s3/connector.ts';
import { parseRanges } from './address-ranges.ts';
import { createEgressGuard, createNameLookups } from './guard.ts';

/** For each driver, the start of a response that never ends. */
const BEGINNINGS = {
  redis: Buffer.from('$500000000\r\n'),
  postgres: Buffer.from([0x52, 0x1d, 0xcd, 0x65, 0x00]),
  kafka: Buffer.from([0x1d, 0xcd, 0x65, 0x00]),
  s3: Buffer.from('HTTP/1.1 500 no\r\ncontent-length: 500000000\r\n\r\n'),
};
const REASONS = {
  redis: 'the answer cannot be understood',
  postgres: 'the answer is too long',
  kafka: 'the answer is too long',
  s3: 'answered 500',
};
const CHUNK = Buffer.alloc(1_024 * 1_024, 'a');
const egress = createEgressGuard({
  allowed: parseRanges(['127.0.0.0/8']),
  resolve: createNameLookups(),
  metrics: NO_METRICS,
});
const context = { egress, dataFolder: '/nonexistent', timeoutMs: 15_000, clock: Date.now };
const server = createServer();
const served = { beginning: CHUNK, bytes: 0 };

function flood(socket: Socket): void {
  const pour = () => {
    while (!socket.destroyed && socket.write(CHUNK)) served.bytes += CHUNK.length;
    served.bytes += CHUNK.length;
  };
  socket.on('error', () => undefined);
  socket.on('drain', pour);
  socket.once('data', () => {
    socket.write(served.beginning);
    pour();
  });
}

beforeEach(async () => {
  server.removeAllListeners('connection').on('connection', flood);
  served.bytes = 0;
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
});
afterEach(() => new Promise((resolve) => server.close(resolve)));

const portOf = () => (server.address() as AddressInfo).port;
const at = () => ({ host: '127.0.0.1', port: portOf() });
const KINDS = [
  ['redis', createRedisConnector, () => ({ ...at(), stream: 's', tls: false })],
  [
    'postgres',
    createPostgresConnector,
    () => ({ ...at(), username: 'u', password: 'p', database: 'd', table: 't', tls: false }),
  ],
  ['kafka', createKafkaConnector, () => ({ brokers: [`127.0.0.1:${portOf()}`], topic: 't', tls: false })],
  [
    's3',
    createS3Connector,
    () => ({
      endpoint: `http://127.0.0.1:${portOf()}`,
      bucket: 'bucket',
      region: 'eu-central-1',
      path_style: true,
      access_key_id: 'id',
      secret_access_key: 'secret',
    }),
  ],
] as const;

test.each(KINDS)(
  'a hostile server filled the memory with one answer: %s',
  async (kind, create, settingsOf) => {
    served.beginning = BEGINNINGS[kind];
    const connector = create(context);
    const settings: JsonObject = settingsOf();
    const destination = { id: 'd', workspaceId: 'w', version: 1, settings };
    const told = await connector.test(destination, { signal: new AbortController().signal });
    const reason = REASONS[kind];
    expect(told).toMatchObject({ ok: false, reason });
    expect(served.bytes).toBeLessThan(450_000_000);
    await connector.close();
  },
);
