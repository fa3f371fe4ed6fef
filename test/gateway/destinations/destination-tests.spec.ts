import { type AddressInfo, createServer, type Socket } from 'node:net';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Client } from '../../helpers/client.ts';
import { openTestGateway, type TestGateway } from '../../helpers/gateway.ts';

let gateway: TestGateway;
let owner: Client;
const sockets = new Set<Socket>();
let taken = 0;
/** Accepts connections and never answers. */
const silent = createServer((socket) => {
  taken += 1;
  sockets.add(socket);
  socket.resume();
  socket.on('error', () => undefined);
  socket.on('close', () => sockets.delete(socket));
});

beforeEach(async () => {
  taken = 0;
  gateway = await openTestGateway({ env: { TRIBUTARY_EGRESS_ALLOW: '127.0.0.0/8' } });
  owner = await gateway.openWorkspace();
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
});
afterEach(async () => {
  await gateway.close();
  for (const socket of sockets) socket.destroy();
  await new Promise((resolve) => silent.close(resolve));
});

const KINDS = {
  webhook: (port: number) => ({ url: `http://127.0.0.1:${port}` }),
  kafka: (port: number) => ({ brokers: [`127.0.0.1:${port}`], topic: 't', tls: false }),
  postgres: (port: number) => ({
    host: '127.0.0.1',
    port,
    tls: false,
    database: 'd',
    username: 'u',
    password: 'p',
  }),
  redis: (port: number) => ({ host: '127.0.0.1', port, tls: false, stream: 's' }),
  elasticsearch: (port: number) => ({ url: `http://127.0.0.1:${port}`, index: 'i' }),
  s3: (port: number) => ({
    endpoint: `http://127.0.0.1:${port}`,
    path_style: true,
    bucket: 'bucket',
    access_key_id: 'a',
    secret_access_key: 's',
  }),
};

async function testOf(type: keyof typeof KINDS, owner: Client): Promise<string> {
  const { port } = silent.address() as AddressInfo;
  const body = { name: type, type, settings: KINDS[type](port) };
  const { id } = await owner.ok<{ readonly id: string }>('POST', './destinations', body);
  return `./destinations/${id}/test`;
}

it('a connection test of every type ends with the server, and leaves no connection open', async () => {
  const kinds = Object.keys(KINDS) as (keyof typeof KINDS)[];
  // No workspace has more than four at a time.
  const owners = await Promise.all(kinds.map((type) => gateway.openWorkspace(`${type}@example.com`)));
  const paths = await Promise.all(kinds.map((type, at) => testOf(type, owners[at] ?? owner)));
  const answers = paths.map((path, at) => (owners[at] ?? owner).ok('POST', path));
  await expect.poll(() => taken).toBe(kinds.length);
  const began = performance.now();
  await gateway.app.close();
  for (const answer of await Promise.all(answers))
    expect(answer).toMatchObject({ ok: false, reason: 'stopped' });
  await expect.poll(() => sockets.size).toBe(0);
  expect(performance.now() - began).toBeLessThan(5_000);
});

it('a workspace runs four connection tests at a time; more are queued, and too many are refused with 429', async () => {
  const path = await testOf('webhook', owner);
  const answers = Array.from({ length: 30 }, () => owner.call('POST', path));
  await expect.poll(() => taken).toBe(4);
  const early = await Promise.race(answers);
  expect(early).toMatchObject({ status: 429, body: { error: 'too many requests' } });
  for (const socket of sockets) socket.destroy();
  await expect.poll(() => taken).toBeGreaterThanOrEqual(8);
  const began = performance.now();
  await gateway.app.close();
  const statuses = (await Promise.all(answers)).map(({ status }) => status);
  // The waiting tests ran after the stop, four at a time, each until the timeout of its silent destination.
  expect(performance.now() - began).toBeLessThan(8_000);
  expect(statuses.filter((status) => status === 429).length).toBeGreaterThanOrEqual(6);
});
