import type { AddressInfo } from 'node:net';
import { createServer, type Socket } from 'node:net';
import type { DeliveryResult, JsonObject } from '@tributary/core';
import { afterEach, describe, expect, it } from 'vitest';
import { connectorOf, createTestConnectors, deliveries, destination, unhurried } from './suite/harness.ts';
import { type Answer, answerWith, startRecordingServer } from './suite/recording-server.ts';
import { WEBHOOK_SECRET } from './webhook/harness.ts';

// A refusal for the rate is no failure: each connector reports it as throttled, with the wait that it asks for.

const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

async function send(type: string, settings: JsonObject, count = 3): Promise<readonly DeliveryResult[]> {
  const connectors = createTestConnectors({ egressAllow: ['127.0.0.0/8'] });
  ends.push(() => connectors.close());
  return connectorOf(connectors, type).deliver(destination(settings), deliveries(count), unhurried);
}

async function httpServer(answer: Answer) {
  const server = await startRecordingServer();
  ends.push(() => server.close());
  server.answer = answer;
  return server;
}

/** A server that sends these bytes to each connection, after the first bytes that it receives. */
async function tcpServer(bytes: Buffer): Promise<number> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined).once('data', () => socket.end(bytes));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  ends.push(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

const THROTTLED = { outcome: 'retry', throttled: true };

it.each([
  [429, undefined, undefined],
  [429, '3', 3_000],
  [503, '7', 7_000],
])('webhook: %d with Retry-After %s', async (status, retryAfter, afterMs) => {
  const headers: Record<string, string> = retryAfter === undefined ? {} : { 'retry-after': retryAfter };
  const server = await httpServer(answerWith(status, '', headers));
  const results = await send('webhook', { url: server.url, secret: WEBHOOK_SECRET, batch_size: 10 });
  expect(results).toHaveLength(3);
  for (const result of results) {
    expect(result).toMatchObject({ ...THROTTLED, status });
    expect('afterMs' in result ? result.afterMs : undefined).toBe(afterMs);
  }
  expect(server.requests).toHaveLength(1);
});

it('webhook: an HTTP date in Retry-After is as good as seconds', async () => {
  const date = new Date(Date.now() + 30_000).toUTCString();
  const server = await httpServer(answerWith(429, '', { 'retry-after': date }));
  const [result] = await send('webhook', { url: server.url, secret: WEBHOOK_SECRET, batch_size: 1 }, 1);
  expect(result).toMatchObject(THROTTLED);
  const afterMs = result !== undefined && 'afterMs' in result ? (result.afterMs ?? 0) : 0;
  expect(afterMs).toBeGreaterThan(25_000);
  expect(afterMs).toBeLessThanOrEqual(30_000);
});

it('webhook: a 503 without Retry-After is a failure', async () => {
  const server = await httpServer(answerWith(503));
  const [result] = await send('webhook', { url: server.url, secret: WEBHOOK_SECRET, batch_size: 1 }, 1);
  expect(result).toMatchObject({ outcome: 'retry', status: 503 });
  expect(result).not.toHaveProperty('throttled');
});

it('s3: SlowDown', async () => {
  const server = await httpServer(
    answerWith(503, '<Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>'),
  );
  const results = await send('s3', {
    endpoint: `http://127.0.0.1:${server.port}`,
    region: 'eu-central-1',
    bucket: 'b-events',
    prefix: 'p',
    path_style: true,
    access_key_id: 'A-KEY-ID',
    secret_access_key: 'a-secret-key',
    batch_size: 200,
    batch_seconds: 1,
  });
  expect(results).toEqual(
    Array(3).fill(expect.objectContaining({ ...THROTTLED, reason: 'answered 503 SlowDown' })),
  );
});

it('elasticsearch: some documents of a request are refused for the rate, the others are what they are', async () => {
  const error = { type: 'es_rejected_execution_exception', reason: 'queue is full' };
  const items = [
    { create: { status: 201 } },
    { create: { status: 429, error } },
    { create: { status: 400, error: { type: 'document_parsing_exception', reason: 'no long' } } },
  ];
  const server = await httpServer(answerWith(200, JSON.stringify({ items })));
  const results = await send('elasticsearch', { url: `http://127.0.0.1:${server.port}`, index: 'events' });
  expect(results).toMatchObject([{ outcome: 'delivered' }, THROTTLED, { outcome: 'dead' }]);
});

it('elasticsearch: the request as a whole', async () => {
  const server = await httpServer(answerWith(429, '', { 'retry-after': '2' }));
  const results = await send('elasticsearch', { url: `http://127.0.0.1:${server.port}`, index: 'events' });
  expect(results).toMatchObject(Array(3).fill({ ...THROTTLED, afterMs: 2_000 }));
});

it('redis: no connection is left', async () => {
  const port = await tcpServer(Buffer.from('-ERR max number of clients reached\r\n'));
  const settings = { host: '127.0.0.1', port, tls: false, database: 0, stream: 's', remember_hours: 25 };
  expect(await send('redis', settings)).toMatchObject(Array(3).fill(THROTTLED));
});

it('postgres: no connection is left', async () => {
  const fields = Buffer.from('SFATAL\0VFATAL\0C53300\0Msorry, too many clients already\0\0');
  const head = Buffer.alloc(5);
  head.write('E', 'latin1');
  head.writeInt32BE(4 + fields.length, 1);
  const port = await tcpServer(Buffer.concat([head, fields]));
  const settings = {
    host: '127.0.0.1',
    port,
    tls: false,
    database: 'd',
    username: 'u',
    password: 'p',
    table: 'public.events',
    create_table: false,
  };
  expect(await send('postgres', settings)).toMatchObject(Array(3).fill(THROTTLED));
});

/** Destinations that are reached by HTTP, with settings for a server at this port. */
const HTTP_KINDS: Readonly<Record<string, (port: number) => JsonObject>> = {
  webhook: (port) => ({ url: `http://127.0.0.1:${port}`, secret: WEBHOOK_SECRET, batch_size: 1 }),
  elasticsearch: (port) => ({ url: `http://127.0.0.1:${port}`, index: 'events' }),
  s3: (port) => ({
    endpoint: `http://127.0.0.1:${port}`,
    region: 'eu-central-1',
    bucket: 'b-events',
    path_style: true,
    access_key_id: 'A-KEY-ID',
    secret_access_key: 'a-secret-key',
  }),
  'segment-userpilot': (port) => ({
    apiKey: 'key',
    endpoint: `http://127.0.0.1:${port}/`,
    subscriptions: ['track', 'identify', 'page'].map((type) => ({
      action: 'trackEvent',
      trigger: `type = "${type}"`,
      mapping: { userId: 'u', name: 'Tea Poured' },
    })),
  }),
};

const DAY_MS = 86_400_000;

describe.each(Object.entries(HTTP_KINDS))('%s', (type, settingsFor) => {
  it.each([
    [408, undefined, undefined],
    [425, undefined, undefined],
    [500, '3', undefined],
    [502, undefined, undefined],
    [504, undefined, undefined],
    [503, '-1', undefined],
    [429, '86400', DAY_MS],
    [429, '-1', undefined],
    [429, 'tomorrow', undefined],
    [429, 'Fri, 31 Dec 2100 23:59:59 GMT', Date.parse('2100-12-31T23:59:59Z') - Date.now()],
  ])('%d with Retry-After %s is tried again', async (status, retryAfter, afterMs) => {
    const headers: Record<string, string> = retryAfter === undefined ? {} : { 'retry-after': retryAfter };
    const server = await httpServer(answerWith(status, '', headers));
    const [result] = await send(type, settingsFor(server.port), 1);
    expect(result).toMatchObject({ outcome: 'retry' });
    expect(result !== undefined && 'throttled' in result).toBe(status === 429);
    const waited = result !== undefined && 'afterMs' in result ? result.afterMs : undefined;
    if (afterMs === undefined) expect(waited).toBeUndefined();
    else expect(Math.abs((waited ?? 0) - afterMs)).toBeLessThan(60_000);
  });
});
