import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { setImmediate } from 'node:timers/promises';
import Connection from 'kafkajs/src/network/connection.js';
import RequestQueue from 'kafkajs/src/network/requestQueue/index.js';
import socketFactory from 'kafkajs/src/network/socketFactory.js';
import { afterEach, describe, expect, it, vi } from 'vitest';
import {
  checkOnlyWaitingRequests,
  forgetPartsOfAnswers,
  Sockets,
  timeRequestsMonotonically,
} from './brokers.ts';

const quiet = { debug() {}, error() {}, info() {}, warn() {} };

it('a connection that broke within an answer drops the part it had received', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const connection = new Connection({
    host: '127.0.0.1',
    port: (server.address() as AddressInfo).port,
    logger: { namespace: () => quiet },
    socketFactory: socketFactory(),
    connectionTimeout: 1_000,
    requestTimeout: 1_000,
  });
  forgetPartsOfAnswers(connection);
  Object.assign(connection, { chunks: [Buffer.alloc(3)], bytesBuffered: 3, bytesNeeded: 100 });
  await connection.connect();
  expect(connection).toMatchObject({ chunks: [], bytesBuffered: 0, bytesNeeded: 4 });
  await connection.disconnect();
  server.close();
});

it('a closed connection that many requests gave up on was warned about as a leak, in plain text', async () => {
  const warned: Error[] = [];
  const note = (warning: Error) => warned.push(warning);
  process.on('warning', note);
  const socket = new Sockets().factory({ host: '127.0.0.1', port: 9 });
  await new Promise((resolve) => socket.on('error', () => {}).once('close', resolve));
  for (let request = 0; request < 20; request++) socket.unref();
  await setImmediate();
  process.off('warning', note);
  expect(warned).toEqual([]);
});

describe('a queue of requests', () => {
  afterEach(() => vi.useRealTimers());

  function timersWith(waiting: number): number {
    vi.useFakeTimers();
    const queue: RequestQueue = Object.create(RequestQueue.prototype);
    Object.assign(queue, { pending: new Array(waiting).fill({}), throttledUntil: -1 });
    checkOnlyWaitingRequests(queue);
    queue.scheduleCheckPendingRequests();
    return vi.getTimerCount();
  }

  it('sets no timers while the connection is idle', () => {
    expect(timersWith(0)).toBe(0);
  });

  it('gave up all requests once the clock was set forward: they end by the time that passed', () => {
    vi.useFakeTimers();
    const timeoutRequest = vi.fn();
    const queue: RequestQueue = Object.create(RequestQueue.prototype);
    const inflight = new Map([[1, { requestTimeout: 5_000, timeoutRequest }]]);
    Object.assign(queue, { inflight, requestTimeout: 5_000, isConnected: () => true });
    timeRequestsMonotonically(queue);
    queue.scheduleRequestTimeoutCheck();
    vi.advanceTimersByTime(1_000);
    vi.setSystemTime(Date.now() + 3_600_000);
    vi.advanceTimersByTime(4_000);
    expect(timeoutRequest).not.toHaveBeenCalled();
    vi.advanceTimersByTime(200);
    expect(timeoutRequest).toHaveBeenCalledOnce();
  });

  it('checks for a request that waits', () => {
    expect(timersWith(1)).toBe(1);
  });
});
