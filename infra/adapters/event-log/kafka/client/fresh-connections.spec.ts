import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import Connection from 'kafkajs/src/network/connection.js';
import socketFactory from 'kafkajs/src/network/socketFactory.js';
import { expect, it } from 'vitest';
import './fresh-connections.ts';

it('a connection that broke in the midst of an answer forgets the part it had', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const quiet = { debug() {}, error() {}, info() {}, warn() {} };
  const connection = new Connection({
    host: '127.0.0.1',
    port: (server.address() as AddressInfo).port,
    logger: { namespace: () => quiet },
    socketFactory: socketFactory(),
    connectionTimeout: 1_000,
    requestTimeout: 1_000,
  });
  Object.assign(connection, { chunks: [Buffer.alloc(3)], bytesBuffered: 3, bytesNeeded: 100 });
  await connection.connect();
  expect(connection).toMatchObject({ chunks: [], bytesBuffered: 0, bytesNeeded: 4 });
  await connection.disconnect();
  server.close();
});
