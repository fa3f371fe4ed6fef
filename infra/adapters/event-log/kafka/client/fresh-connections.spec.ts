import { createRequire } from 'node:module';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import Connection from 'kafkajs/src/network/connection.js';
import socketFactory from 'kafkajs/src/network/socketFactory.js';
import { describe, expect, it, onTestFinished } from 'vitest';
import './fresh-connections.ts';

const Encoder = createRequire(import.meta.url)('kafkajs/src/protocol/encoder.js') as new () => object;
const API_VERSIONS = 18;
const quiet = { namespace: () => quiet, debug() {}, info() {}, warn() {}, error() {} };

/** What a broker does with the request of so many bytes that came as the `nth` of all, over its own socket. */
type Behaviour = (nth: number, correlationId: number, socket: Socket) => void;

/** A connection to a broker that behaves like this. */
async function connectionTo(behave: Behaviour): Promise<{ connection: Connection; sockets: Socket[] }> {
  const sockets: Socket[] = [];
  let requests = 0;
  const server = createServer((socket) => {
    sockets.push(socket);
    socket.on('error', () => {});
    socket.on('data', (bytes) => {
      for (let at = 0; at < bytes.length; at += 4 + bytes.readInt32BE(at))
        behave(++requests, bytes.readInt32BE(at + 8), socket);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const connection = new Connection({
    host: '127.0.0.1',
    port: (server.address() as AddressInfo).port,
    logger: quiet,
    socketFactory: socketFactory(),
    requestTimeout: 200,
    connectionTimeout: 1_000,
  });
  onTestFinished(async () => {
    for (const socket of sockets) socket.destroy();
    server.close();
    await connection.disconnect();
  });
  return { connection, sockets };
}

function answer(socket: Socket, correlationId: number): void {
  const bytes = Buffer.alloc(8);
  bytes.writeInt32BE(4, 0);
  bytes.writeInt32BE(correlationId, 4);
  socket.write(bytes);
}

/** As kafkajs's broker does: connects where that is needed, then sends. */
async function request(connection: Connection): Promise<unknown> {
  if (!connection.isConnected()) await connection.connect();
  return connection.send({
    request: {
      apiKey: API_VERSIONS,
      apiVersion: 0,
      apiName: 'ApiVersions',
      encode: async () => new Encoder(),
    },
    response: { decode: async () => 'answered', parse: async (decoded: unknown) => decoded },
  });
}

describe('a connection to a broker', () => {
  // After the kill of a broker in the midst of an answer its stages waited for records for good.
  it('takes no half answer of the one before for the beginning of its own', async () => {
    const { connection } = await connectionTo((nth, correlationId, socket) => {
      if (nth === 1) socket.end(Buffer.from([0, 0, 1, 0, 1, 2, 3]));
      else answer(socket, correlationId);
    });
    await expect(request(connection)).rejects.toThrow('Closed connection');
    expect(await request(connection)).toBe('answered');
    expect(await request(connection)).toBe('answered');
  });

  it('is one, however many connect at once', async () => {
    const { connection, sockets } = await connectionTo((_nth, correlationId, socket) =>
      answer(socket, correlationId),
    );
    expect(await Promise.all([1, 2, 3].map(() => request(connection)))).toEqual(
      new Array(3).fill('answered'),
    );
    expect(sockets).toHaveLength(1);
  });

  it('is given up when a request is not answered in time, and the next one has another', async () => {
    const { connection, sockets } = await connectionTo((nth, correlationId, socket) => {
      if (nth > 1) answer(socket, correlationId);
    });
    await expect(request(connection)).rejects.toThrow('timed out');
    expect(await request(connection)).toBe('answered');
    expect(sockets).toHaveLength(2);
  });

  it('hears nothing of one that was given up', async () => {
    const { connection, sockets } = await connectionTo((_nth, correlationId, socket) =>
      answer(socket, correlationId),
    );
    expect(await request(connection)).toBe('answered');
    await connection.disconnect();
    sockets[0]?.write(Buffer.from([0, 0, 1, 0]));
    expect(await request(connection)).toBe('answered');
  });
});
