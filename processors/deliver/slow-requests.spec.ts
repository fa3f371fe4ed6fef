import { iso } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { DESTINATION, delivery, OK, START, setUp, setUpHanging, taskOf, turn } from './deliveries.fixture.ts';

describe('a request that takes too long for its stage', () => {
  it('is attached to by the slow stage: one call is made', async () => {
    const { calls, release, leaveToSlowQueue, attach } = setUpHanging(16);
    expect((await leaveToSlowQueue(delivery('1'))).kind).toBe('slow');
    const attached = attach(delivery('1'));
    release[0]?.(OK);
    expect(await attached).toMatchObject({
      delivery: { attempts: [{ outcome: 'delivered' }] },
      kind: 'delivered',
    });
    expect(calls).toHaveLength(1);
  });

  it('was forgotten a minute after it ended, and posted again: its result waits until it is taken, once', async () => {
    const { time, release, leaveToSlowQueue, attach } = setUpHanging(16);
    await leaveToSlowQueue(delivery('1'));
    release[0]?.(OK);
    time.elapsed += 3_600_000;
    await turn();
    expect(await attach(delivery('1'))).toMatchObject({ kind: 'delivered' });
    expect(await attach(delivery('1'))).toBeUndefined();
  });

  it('is never taken for another try or drive of the same delivery', async () => {
    const { release, leaveToSlowQueue, attach } = setUpHanging(16);
    await leaveToSlowQueue(delivery('1'));
    release[0]?.(OK);
    expect(await attach(delivery('1', { redrives: 1, created_at: iso(START + 1) }))).toBeUndefined();
    expect(await attach(delivery('1', { created_at: iso(START + 1) }))).toBeUndefined();
    const attempts = [{ at: iso(START), outcome: 'retry' as const, duration_ms: 1 }];
    expect(await attach(delivery('1', { attempts }))).toBeUndefined();
    expect(await attach(delivery('1'))).toMatchObject({ kind: 'delivered' });
  });

  it('is aborted when the slow stage that attached to it leaves, and begins again', async () => {
    const { calls, release, leaveToSlowQueue, attach, run } = setUpHanging(16);
    await leaveToSlowQueue(delivery('1'));
    const slow = new AbortController();
    const attached = attach(delivery('1'), slow.signal).catch((error: unknown) => error);
    slow.abort();
    expect(await attached).toMatchObject({ code: 'unavailable' });
    expect(calls[0]?.signal.aborted).toBe(true);
    expect(await attach(delivery('1'))).toBeUndefined();
    const again = run(delivery('1'));
    await turn();
    release[1]?.(OK);
    expect((await again).kind).toBe('delivered');
  });

  it('is not begun twice when its entry is taken again before it came to the slow queue', async () => {
    const { calls, leaveToSlowQueue } = setUpHanging(16);
    await leaveToSlowQueue(delivery('1'));
    expect((await leaveToSlowQueue(delivery('1'))).kind).toBe('slow');
    expect(calls).toHaveLength(1);
  });

  it('that is repeated at once after it was left to the slow queue is attached to as one', async () => {
    const { calls, time, release, leaveToSlowQueue, attach } = setUpHanging(16);
    await leaveToSlowQueue(delivery('1'));
    release[0]?.({ outcome: 'retry', reason: 'reset', reset: true });
    await turn();
    expect(calls).toHaveLength(2);
    time.elapsed += 501;
    await new Promise((resolve) => setTimeout(resolve, 60)); // longer than the interval of timeouts
    const attached = attach(delivery('1'));
    release[1]?.(OK);
    expect(await attached).toMatchObject({
      delivery: { attempts: [{ outcome: 'retry' }, { outcome: 'delivered', at_once: true }] },
      kind: 'delivered',
    });
    expect(calls).toHaveLength(2);
  });

  it('a request that found no room to start is slow for the stage that attaches', async () => {
    const { calls, leaveToSlowQueue, attach, sendQuickly } = setUpHanging(4);
    const filling = Array.from({ length: 4 }, (_, i) =>
      sendQuickly(taskOf(delivery(`f${i}`)), undefined, 100_000),
    );
    await turn();
    expect((await leaveToSlowQueue(delivery('1'))).kind).toBe('slow');
    expect([undefined, 'slow']).toContain((await attach(delivery('1')))?.kind);
    expect(calls).toHaveLength(filling.length);
  });
});

it('deliveries left for the slow queue while the thread was busy: a request and a wait in the queue take no time of its own', async () => {
  const { calls, time, release, sendQuickly, registry } = setUpHanging(1);
  const sent = ['1', '2', '3'].map((id) => sendQuickly(taskOf(delivery(id))));
  for (const id of ['1', '2', '3']) {
    await expect.poll(() => calls.at(-1)?.ids).toEqual([id]);
    time.elapsed += 60_000;
    time.busy += 60_000;
    await new Promise((resolve) => setTimeout(resolve, 60)); // longer than the interval of timeouts
    expect(registry.queueOf('destination').isSlow()).toBe(false);
    release.shift()?.(OK);
  }
  expect((await Promise.all(sent)).map(({ kind }) => kind)).toEqual(Array(3).fill('delivered'));
});

it('a request that takes long makes its destination slow: deliveries that wait for it leave at once, and later ones for a while', async () => {
  const { time, release, sendQuickly, registry } = setUpHanging(1);
  const first = sendQuickly(taskOf(delivery('1')));
  await turn();
  time.elapsed += 400;
  const second = sendQuickly(taskOf(delivery('2')));
  time.elapsed += 101;
  expect((await Promise.all([first, second])).map(({ kind }) => kind)).toEqual(['slow', 'slow']);
  const queue = registry.queueOf('destination');
  time.elapsed += 60_000;
  expect(queue.isSlow()).toBe(true);
  release[0]?.(OK);
  await turn();
  expect(queue.isSlow()).toBe(false);
});

describe('the registry of a process', () => {
  it('kept the opened secrets of every destination for ever: forgets idle and deleted ones, not busy ones', async () => {
    const { registry, known, time, run } = setUp(() => new Promise(() => {}));
    const busy = registry.queueOf('destination');
    known.set('idle', { ...DESTINATION, id: 'idle' });
    registry.queueOf('idle');
    registry.queueOf('gone');
    const waiting = run(delivery('1'));
    expect(await Promise.race([waiting, turn()])).toBeUndefined();
    time.elapsed += 1_000;
    registry.sweep();
    expect(registry.health()).toHaveLength(2);
    time.elapsed += 11 * 60_000;
    registry.sweep();
    expect(registry.health()).toHaveLength(1);
    expect(registry.queueOf('destination')).toBe(busy);
  });

  it('remembers for how long a destination asked not to be called', async () => {
    const { registry, time, run } = setUp(() => ({
      outcome: 'retry',
      reason: 'HTTP 429',
      status: 429,
      afterMs: 30 * 60_000,
    }));
    await run(delivery('1'));
    time.elapsed += 29 * 60_000;
    registry.sweep();
    expect(registry.queueOf('destination').waitMs()).toBeGreaterThan(50_000);
    time.elapsed += 2 * 60_000;
    registry.sweep();
    expect(registry.health()).toHaveLength(0);
  });

  it('asked nothing for an hour of a destination with a new address: a changed destination starts again', async () => {
    const { registry, known, run } = setUp(({ id }) =>
      id === '1' ? { outcome: 'retry', reason: 'HTTP 429', afterMs: 30 * 60_000 } : OK,
    );
    await run(delivery('1'));
    expect(registry.queueOf('destination').waitMs()).toBeGreaterThan(50_000);
    const changed = { ...DESTINATION, version: 2 };
    known.set('destination', changed);
    expect(registry.queueOf('destination').waitMs()).toBe(0);
    expect(await run(delivery('2'), changed)).toMatchObject({ kind: 'delivered' });
    expect(registry.health()).toHaveLength(1);
  });
});
