import { iso } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import type { Attempted } from './call.ts';
import type { DestinationCalls } from './destination-calls.ts';
import { Places } from './places.ts';
import { arrived, delivery, OK, PLACE, START, setUp, setUpHanging, turn } from './samples.ts';

describe('a call that takes too long for its lane', () => {
  it('is joined by the slow lane: one call is made', async () => {
    const { calls, release, handOver, join } = setUpHanging(16);
    expect((await handOver(delivery('1'))).settlement.kind).toBe('slow');
    const joined = join(delivery('1'));
    release[0]?.(OK);
    expect(await joined).toMatchObject({
      delivery: { attempts: [{ outcome: 'delivered' }] },
      settlement: { kind: 'delivered' },
    });
    expect(calls).toHaveLength(1);
  });

  it('was forgotten a minute after it ended, and posted again: its result waits until it is taken, once', async () => {
    const { time, release, handOver, join } = setUpHanging(16);
    await handOver(delivery('1'));
    release[0]?.(OK);
    time.elapsed += 3_600_000;
    await turn();
    expect(await join(delivery('1'))).toMatchObject({ settlement: { kind: 'delivered' } });
    expect(await join(delivery('1'))).toBeUndefined();
  });

  it('is never taken for another try or drive of the same delivery', async () => {
    const { release, handOver, join } = setUpHanging(16);
    await handOver(delivery('1'));
    release[0]?.(OK);
    expect(await join(delivery('1', { redrives: 1, created_at: iso(START + 1) }))).toBeUndefined();
    expect(await join(delivery('1', { created_at: iso(START + 1) }))).toBeUndefined();
    const attempts = [{ at: iso(START), outcome: 'retry' as const, duration_ms: 1 }];
    expect(await join(delivery('1', { attempts }))).toBeUndefined();
    expect(await join(delivery('1'))).toMatchObject({ settlement: { kind: 'delivered' } });
  });

  it('was aborted and posted again at a graceful stop: it outlives the lane it came from', async () => {
    const { calls, release, handOver, join } = setUpHanging(16);
    const quick = new AbortController();
    await handOver(delivery('1'), { signal: quick.signal });
    quick.abort();
    const joined = join(delivery('1'));
    expect(calls[0]?.signal.aborted).toBe(false);
    release[0]?.(OK);
    expect(await joined).toMatchObject({ settlement: { kind: 'delivered' } });
    expect(calls).toHaveLength(1);
  });

  it('stays with its lane while the stages stop: nothing waits behind it', async () => {
    const { calls, time, release, soonDelivered } = setUpHanging(16);
    const { signal } = new AbortController();
    const stopping = new AbortController();
    const soon = soonDelivered(arrived(delivery('1')), { signal, stopping: stopping.signal });
    await turn();
    stopping.abort();
    time.elapsed += 501;
    await new Promise((resolve) => setTimeout(resolve, 60)); // longer than patience looks away
    release[0]?.(OK);
    expect((await soon).settlement.kind).toBe('delivered');
    expect(calls).toHaveLength(1);
  });

  it('is aborted when the slow lane that joined it leaves, and begins again', async () => {
    const { calls, release, handOver, join, run } = setUpHanging(16);
    await handOver(delivery('1'));
    const slow = new AbortController();
    const joined = join(delivery('1'), slow.signal).catch((error: unknown) => error);
    slow.abort();
    expect(await joined).toMatchObject({ code: 'unavailable' });
    expect(calls[0]?.signal.aborted).toBe(true);
    expect(await join(delivery('1'))).toBeUndefined();
    const again = run(delivery('1'));
    await turn();
    release[1]?.(OK);
    expect((await again).settlement.kind).toBe('delivered');
  });

  it('is not begun twice when its entry is taken again before it came to the slow lane', async () => {
    const { calls, handOver } = setUpHanging(16);
    await handOver(delivery('1'));
    expect((await handOver(delivery('1'))).settlement.kind).toBe('slow');
    expect(calls).toHaveLength(1);
  });

  it('that is repeated at once after it was handed over is joined as one', async () => {
    const { calls, time, release, handOver, join } = setUpHanging(16);
    await handOver(delivery('1'));
    release[0]?.({ outcome: 'retry', reason: 'reset', reset: true });
    await turn();
    expect(calls).toHaveLength(2);
    time.elapsed += 501;
    await new Promise((resolve) => setTimeout(resolve, 60)); // longer than patience looks away
    const joined = join(delivery('1'));
    release[1]?.(OK);
    expect(await joined).toMatchObject({
      delivery: { attempts: [{ outcome: 'retry' }, { outcome: 'delivered', at_once: true }] },
      settlement: { kind: 'delivered' },
    });
    expect(calls).toHaveLength(2);
  });

  it('what found no room to begin is joined as slow', async () => {
    const { calls, handOver, join, soonDelivered } = setUpHanging(16);
    const filling = Array.from({ length: 16 }, (_, i) =>
      soonDelivered(arrived(delivery(`f${i}`)), undefined, 100_000),
    );
    await turn();
    expect((await handOver(delivery('1'))).settlement.kind).toBe('slow');
    expect([undefined, 'slow']).toContain((await join(delivery('1')))?.settlement.kind);
    expect(calls).toHaveLength(filling.length);
  });
});

/** What comes of one attempt. */
function attempt(calls: DestinationCalls, id: string): Promise<Attempted> {
  return new Promise((attempted, fail) => {
    calls.attempt({
      ...arrived(delivery(id)),
      since: 0,
      call: undefined,
      isStopped: () => false,
      begun() {},
      attempted,
      fail,
    });
  });
}

describe('the places of a process', () => {
  it('kept the opened secrets of every destination for ever: forgets what is idle for long or gone, not what is busy', async () => {
    const { dependencies, known, time } = setUp(() => new Promise(() => {}));
    const places = new Places(dependencies);
    const busy = places.callsTo('place');
    known.set('idle', { ...PLACE, id: 'idle' });
    places.callsTo('idle');
    places.callsTo('gone');
    const waiting = attempt(busy, '1');
    expect(await Promise.race([waiting, turn()])).toBeUndefined();
    time.elapsed += 1_000;
    places.sweep();
    expect(places.size).toBe(2);
    time.elapsed += 11 * 60_000;
    places.sweep();
    expect(places.size).toBe(1);
    expect(places.callsTo('place')).toBe(busy);
  });

  it('remember for how long a destination asked not to be called', async () => {
    const { dependencies, time } = setUp(() => ({
      outcome: 'retry',
      reason: 'HTTP 429',
      status: 429,
      afterMs: 30 * 60_000,
    }));
    const places = new Places(dependencies);
    await attempt(places.callsTo('place'), '1');
    time.elapsed += 29 * 60_000;
    places.sweep();
    expect(places.callsTo('place').expectedWaitMs(true)).toBeGreaterThan(50_000);
    time.elapsed += 2 * 60_000;
    places.sweep();
    expect(places.size).toBe(0);
  });

  it('asked nothing of a destination for an hour that had been moved to another place: what is changed begins anew', async () => {
    const { dependencies, known } = setUp(({ id }) =>
      id === '1' ? { outcome: 'retry', reason: 'HTTP 429', afterMs: 30 * 60_000 } : OK,
    );
    const places = new Places(dependencies);
    await attempt(places.callsTo('place'), '1');
    expect(places.callsTo('place').expectedWaitMs(true)).toBeGreaterThan(50_000);
    known.set('place', { ...PLACE, version: 2 });
    expect(places.callsTo('place').expectedWaitMs(true)).toBe(0);
    expect(await attempt(places.callsTo('place'), '2')).toMatchObject({ result: OK });
    expect(places.size).toBe(1);
  });
});
