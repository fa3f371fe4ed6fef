import type { Delivery, DeliveryResult } from '@tributary/core';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { sampleDelivery } from '../delivery.fixture.ts';
import { Closed } from '../failures.ts';
import { mayConcernSome } from '../http/client.ts';
import { DestinationClients, type Part, partsOf, sendInParts } from './client-connector.ts';

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
    if (new Error().stack?.includes('/client-connector.ts')) ownTimers.add(timer);
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

const delivery = (id: number): Delivery => sampleDelivery(String(id));
const batchOf = (count: number): Part => [
  delivery(0),
  ...Array.from({ length: count - 1 }, (_, n) => delivery(n + 1)),
];
const idsOf = (part: Part) => part.map(({ id }) => Number(id));

const DELIVERED: DeliveryResult = { outcome: 'delivered', status: 204 };
const refused = (status = 400): DeliveryResult => ({
  outcome: 'dead',
  status,
  reason: `answered ${status}`,
});
const TIMED_OUT: DeliveryResult = { outcome: 'retry', reason: 'timed out' };

/**
 * Sends a batch to a destination that answers by the content of a request, each within `tookMs` of
 * `timeoutMs`. Batches are halved until a quarter of the time has passed.
 */
async function run(
  batch: Part,
  answer: (ids: readonly number[]) => DeliveryResult,
  tookMs = 0,
  timeoutMs = 10_000,
) {
  const sent: number[][] = [];
  let now = 0;
  const results = await sendInParts(batch, {
    send: async (part) => {
      now += tookMs;
      if (now > timeoutMs) return { result: TIMED_OUT, mayBeSplit: false };
      sent.push(idsOf(part));
      const result = answer(idsOf(part));
      return { result, mayBeSplit: mayConcernSome(result) };
    },
    hasTimeToHalve: () => now < timeoutMs / 4,
  });
  return { sent, results, outcomes: results.map(({ outcome }) => outcome) };
}

test('parts keep the order and leave nothing out', () => {
  expect(partsOf(batchOf(5), 2).map(idsOf)).toEqual([[0, 1], [2, 3], [4]]);
  expect(partsOf([], 2)).toEqual([]);
});

test.each([0, 37, 99])('one bad event (%d) does not take its batch of a hundred with it', async (bad) => {
  const { sent, results } = await run(batchOf(100), (ids) => (ids.includes(bad) ? refused() : DELIVERED));
  expect(results.map((result) => (result.outcome === 'dead' ? 'x' : '.')).join('')).toBe(
    `${'.'.repeat(bad)}x${'.'.repeat(99 - bad)}`,
  );
  expect(sent.length).toBeLessThanOrEqual(15);
});

test('a body too large for the place arrives in smaller ones', async () => {
  const { sent, results } = await run(batchOf(8), (ids) => (ids.length > 2 ? refused(413) : DELIVERED));
  expect(results).toEqual(Array(8).fill(DELIVERED));
  expect(sent.map((ids) => ids.length)).toEqual([8, 4, 4, 2, 2, 2, 2]);
});

test.each([401, 403, 404, 410])('a %d holds for the batch: nothing is sent again', async (status) => {
  const { sent, results } = await run(batchOf(4), () => refused(status));
  expect(sent).toHaveLength(1);
  expect(results).toEqual(Array(4).fill(refused(status)));
});

const STUMBLED: DeliveryResult = { outcome: 'retry', status: 500, reason: 'answered 500' };

test.each([[[3]], [[0, 63]], [[5, 40, 41]]])(
  'events that make a receiver fail (%j) delay none of their batch',
  async (bad) => {
    const { sent, results } = await run(batchOf(64), (ids) =>
      ids.some((id) => bad.includes(id)) ? STUMBLED : DELIVERED,
    );
    expect(results.flatMap(({ outcome }, at) => (outcome === 'delivered' ? [] : [at]))).toEqual(bad);
    expect(sent.length).toBeLessThanOrEqual(1 + 2 * 6 * bad.length);
  },
);

test.each([
  [8, [0, 2, 4, 6]],
  [100, [7, 33, 58, 61, 90]],
  [500, Array.from({ length: 100 }, (_, n) => 5 * n)],
  [45, Array.from({ length: 20 }, (_, n) => n)],
])(
  'more than three events that make a receiver fail delayed their batch of %d for ever',
  async (count, bad) => {
    const { sent, results } = await run(batchOf(count), (ids) =>
      ids.some((id) => bad.includes(id)) ? STUMBLED : DELIVERED,
    );
    expect(results.flatMap(({ outcome }, at) => (outcome === 'delivered' ? [] : [at]))).toEqual(bad);
    expect(sent.length).toBeLessThanOrEqual(14 + 2 * Math.ceil(Math.log2(count)) * bad.length);
  },
);

test('a receiver that stumbles at everything is asked a few times, and all of it is tried again', async () => {
  const { sent, outcomes } = await run(batchOf(100), () => STUMBLED);
  expect(sent).toHaveLength(7 + 7);
  expect(sent.slice(7)).toEqual([[0], [15], [30], [45], [60], [75], [90]]);
  expect(outcomes).toEqual(Array(100).fill('retry'));
});

test('a busy destination is not asked on, and the rest waits for its Retry-After', async () => {
  const busy: DeliveryResult = {
    outcome: 'retry',
    status: 429,
    throttled: true,
    reason: 'answered 429',
    response: 'slow down',
    afterMs: 7_000,
  };
  const { sent, results } = await run(batchOf(4), (ids) => (ids.length === 4 ? refused() : busy));
  expect(sent).toEqual([
    [0, 1, 2, 3],
    [0, 1],
  ]);
  const rest = { outcome: 'retry', reason: 'not reached: answered 429', throttled: true, afterMs: 7_000 };
  expect(results).toEqual([busy, busy, rest, rest]);
});

test('deliveries that the deadline cuts off are retried, none is dead', async () => {
  const { outcomes } = await run(batchOf(100), (ids) => (ids.includes(20) ? refused() : DELIVERED), 1_000);
  expect(outcomes).not.toContain('dead');
  expect(outcomes.filter((outcome) => outcome === 'delivered').length).toBeGreaterThan(50);
});

test.each([1, 10, 100, 300, 625, 1_000, 1_250, 2_400, 2_500, 4_900])(
  'every call settles some events, also when all fail and each response takes %d ms',
  async (tookMs) => {
    const { outcomes } = await run(batchOf(100), () => refused(), tookMs);
    expect(outcomes).toContain('dead');
  },
);
