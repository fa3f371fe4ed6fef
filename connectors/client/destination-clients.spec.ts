import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Closed } from '../failures.ts';
import { DestinationClients } from './destination-clients.ts';

class FakeClient {
  closes = 0;
  async close() {
    this.closes += 1;
  }
}

const IDLE_MS = 1_000;
let opened: FakeClient[];
let clients: DestinationClients<FakeClient>;
/**
 * Timers set by clients under test. Code left over from other spec files of this process may set timers too.
 */
const ownTimers = new Set<unknown>();
const closes = () => opened.map((client) => client.closes);
const destination = (id: string, version = 1) => ({ id, version, workspaceId: 'w1', settings: {} });
const touch = (id: string, version = 1) => clients.use(destination(id, version), async (client) => client);

/** A call that runs until it is ended. */
function begin(id: string, version = 1) {
  const work = Promise.withResolvers<void>();
  const done = clients.use(destination(id, version), () => work.promise);
  return async () => {
    work.resolve();
    await done;
  };
}

function watchOwnTimers(): void {
  ownTimers.clear();
  const { setTimeout: start, clearTimeout: stop } = globalThis;
  const started = (callback: () => void, ms?: number) => {
    const timer = start(() => {
      ownTimers.delete(timer);
      callback();
    }, ms);
    if (new Error().stack?.includes('/destination-clients.ts')) ownTimers.add(timer);
    return timer;
  };
  vi.spyOn(globalThis, 'setTimeout').mockImplementation(started as typeof setTimeout);
  vi.spyOn(globalThis, 'clearTimeout').mockImplementation((timer) => {
    ownTimers.delete(timer);
    stop(timer);
  });
}

beforeEach(() => {
  vi.useFakeTimers();
  watchOwnTimers();
  opened = [];
  const open = async () => {
    const client = new FakeClient();
    opened.push(client);
    return client;
  };
  clients = new DestinationClients({ open, idleMs: IDLE_MS, maxKept: 2 });
});
afterEach(async () => {
  await clients.close();
  vi.restoreAllMocks();
  vi.useRealTimers();
});

test('a destination keeps its client, and has it alone', async () => {
  const first = await touch('a');
  expect(await touch('a')).toBe(first);
  expect(await touch('b')).not.toBe(first);
});

test('an idle client is closed, counted from the end of its last call', async () => {
  await touch('a');
  expect(ownTimers.size).toBe(1);
  await vi.advanceTimersByTimeAsync(IDLE_MS - 1);
  const end = begin('a');
  await vi.advanceTimersByTimeAsync(IDLE_MS * 3);
  await end();
  await vi.advanceTimersByTimeAsync(IDLE_MS - 1);
  expect(closes()).toEqual([0]);
  await vi.advanceTimersByTimeAsync(1);
  expect(closes()).toEqual([1]);
  expect(clients.size).toBe(0);
  expect(ownTimers.size).toBe(0);
});

test('new settings begin with a new client, and the old one ends with its last call', async () => {
  const end = begin('a', 1);
  const endOther = begin('a', 1);
  await touch('a', 2);
  await end();
  expect(closes()).toEqual([0, 0]);
  await endOther();
  expect(closes()).toEqual([1, 0]);
  expect(clients.size).toBe(1);
});

test('of too many the one unused for the longest goes, and none that is in use', async () => {
  const end = begin('a');
  await touch('b');
  await touch('c');
  expect(closes()).toEqual([0, 1, 0]);
  const endC = begin('c');
  await touch('d');
  expect(clients.size).toBe(3);
  await touch('e');
  expect(closes()).toEqual([0, 1, 0, 1, 0]);
  await Promise.all([end(), endC()]);
});

test('the surplus of a busy moment goes as others come', async () => {
  await Promise.all(['a', 'b', 'c', 'd'].map((id) => begin(id)).map((end) => end()));
  expect(clients.size).toBe(4);
  await touch('e');
  expect(clients.size).toBe(2);
  expect(closes()).toEqual([1, 1, 1, 0, 0]);
});

test('the close waits for calls under way, closes every client once and opens no more', async () => {
  const end = begin('a', 1);
  const endNew = begin('a', 2);
  await touch('b');
  let closed = false;
  const closing = clients.close().then(() => {
    closed = true;
  });
  await expect(touch('a')).rejects.toThrow(Closed);
  await vi.advanceTimersByTimeAsync(0);
  expect([closes(), closed]).toEqual([[0, 0, 1], false]);
  await Promise.all([end(), endNew()]);
  await closing;
  await clients.close();
  expect(closes()).toEqual([1, 1, 1]);
  expect(ownTimers.size).toBe(0);
});

test('a client that was discarded ends with its last call, and the next call has another', async () => {
  const end = begin('a');
  const first = await clients.use(destination('a'), async (client, discard) => {
    discard();
    return client;
  });
  expect(first.closes).toBe(0);
  const second = await touch('a');
  expect(second).not.toBe(first);
  await end();
  await vi.advanceTimersByTimeAsync(0);
  expect([first.closes, second.closes]).toEqual([1, 0]);
});

test('an error while opening rejects the call, and the next call opens again', async () => {
  let broken = true;
  const opening = new DestinationClients({
    open: async () => {
      if (broken) throw new TypeError('not there');
      return new FakeClient();
    },
    idleMs: IDLE_MS,
    maxKept: 2,
  });
  await expect(opening.use(destination('a'), async () => 1)).rejects.toThrow('not there');
  broken = false;
  expect(await opening.use(destination('a'), async () => 1)).toBe(1);
  await opening.close();
  expect(ownTimers.size).toBe(0);
});
