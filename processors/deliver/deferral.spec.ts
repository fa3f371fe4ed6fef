import { type DeliveryResult, HEADER, iso } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { PartitionWindows } from '../fairness/partition-windows.ts';
import { defer } from './defer.ts';
import {
  BUSY,
  DESTINATION,
  deferredTask,
  delivery,
  FRESH,
  OK,
  START,
  setUp,
  setUpHanging,
  taskOf,
  turn,
} from './deliveries.fixture.ts';
import { deliverSlow } from './stage.ts';

describe('deferral of deliveries that a destination has no room for', () => {
  it('is deferred once it would wait for longer than the first retry step', async () => {
    const { begin, time, deferred } = setUpHanging();
    const begun = [begin('1'), begin('2')];
    await turn();
    time.elapsed += 5_000;
    expect(deferred(taskOf(delivery('3')))).toBeUndefined();
    time.elapsed += 5_000;
    const result = deferred(taskOf(delivery('3')));
    expect(result?.outcome).toEqual({ kind: 'deferred', label: '10s', slot: START + 20_000, since: START });
    expect(result?.delivery.attempts).toEqual([]);
    expect(begun).toHaveLength(2);
  });

  it('waits the longer the more was deferred before it, and keeps its slot', async () => {
    const { begin, time, deferred } = setUpHanging();
    void begin('1');
    void begin('2');
    await turn();
    time.elapsed += 10_000;
    const slots = Array.from({ length: 12 }, (_, n) => deferred(taskOf(delivery(`${n}`))));
    expect(slots.map((one) => (one?.outcome.kind === 'deferred' ? one.outcome.label : ''))).toEqual([
      ...Array(10).fill('10s'),
      ...Array(2).fill('1m'),
    ]);
    time.now += 60_000;
    const again = deferred(deferredTask(delivery('x'), START + 100_000, START));
    expect(again?.outcome).toEqual({ kind: 'deferred', label: '10s', slot: START + 100_000, since: START });
  });

  it('a delivery whose slot has come is let in before a new one', async () => {
    const { begin, time, deferred } = setUpHanging();
    void begin('1');
    void begin('2');
    await turn();
    time.elapsed += 10_000;
    expect(deferred(taskOf(delivery('new')))).toBeDefined();
    expect(deferred(deferredTask(delivery('old'), START + 1_000))).toBeUndefined();
  });

  it('a waiting delivery is deferred too when no call could start in time', async () => {
    const { begin, time, release, stage } = setUpHanging();
    const first = begin('1');
    const windows = new PartitionWindows(() => time.elapsed, { windowBytes: 100_000 });
    const value = JSON.stringify(delivery('2'));
    const position = { topic: 'deliveries.slow', partition: 0, offset: 0, index: 0 };
    const entry = { key: 'destination:u', value, headers: FRESH, timestamp: START, position };
    const second = new Promise((done, failed) => {
      const { signal } = new AbortController();
      deliverSlow(stage, windows)(entry, { signal, bytes: value.length, done, failed });
    });
    await turn();
    time.elapsed += 12_001;
    expect(await second).toMatchObject([
      { topic: 'deliveries.retry.1s', value, headers: { [HEADER.deferredSince]: `${START}` } },
    ]);
    release[0]?.(OK);
    expect((await first).outcome).toEqual({ kind: 'delivered' });
  });

  it('is dead once there was no room for it for as long as a delivery may fail, however old it is', async () => {
    const { begin, time, deferred } = setUpHanging();
    void begin('1');
    void begin('2');
    await turn();
    time.elapsed += 10_000;
    const day = 24 * 3_600_000;
    const old = delivery('3', { created_at: iso(START - 3 * day) });
    expect(deferred(taskOf(old))?.outcome).toMatchObject({
      kind: 'deferred',
      since: START,
    });
    const waited = (ms: number) => deferred(deferredTask(old, START + 100_000, START - ms))?.outcome;
    expect(waited(day - 1)).toMatchObject({ kind: 'deferred', since: START - day + 1 });
    expect(waited(day)).toMatchObject({ kind: 'dead', cause: 'expired' });
  });

  it('waits for as long as the destination asked, however short the queue is', () => {
    const { stage, registry } = setUp(() => OK);
    const queue = registry.queueOf(DESTINATION.id);
    const asked = (ms: number) => defer(stage, taskOf(delivery('1')), DESTINATION, queue, START + ms).outcome;
    expect(asked(14_000)).toEqual({ kind: 'deferred', label: '10s', slot: START + 14_000, since: START });
    expect(asked(60_000)).toMatchObject({ label: '1m', slot: START + 60_000 });
  });

  it('an overloaded process deferred deliveries that it alone delayed: they wait', async () => {
    const { begin, time, deferred } = setUpHanging();
    const begun = Array.from({ length: 100 }, (_, n) => begin(`${n}`));
    await turn();
    time.elapsed += 1_000;
    expect(deferred(taskOf(delivery('x')))).toBeDefined();
    time.busy = 1_000;
    expect(deferred(taskOf(delivery('x')))).toBeUndefined();
    time.elapsed += 1_000; // a slow call is not the process's fault
    expect(deferred(taskOf(delivery('x')))).toBeDefined();
    expect(begun).toHaveLength(100);
  });

  it('requests that last long deferred a backlog by minutes, while one at a time was sent after a refusal for the rate', async () => {
    const { begin, time, deferred, release, registry } = setUpHanging(16);
    registry.queueOf(DESTINATION.id);
    // Sixteen at a time from then on.
    time.elapsed += 5_000;
    for (let n = 0; n < 16; n++) void begin(`${n}`);
    await turn();
    time.elapsed += 600;
    for (const [n, done] of release.splice(0).entries()) done(n < 15 ? OK : BUSY);
    await turn();
    for (let n = 0; n < 60; n++) void begin(`later ${n}`);
    await turn();
    // About fourteen a second.
    expect(deferred(taskOf(delivery('next')))).toBeUndefined();
  });

  it('no more calls start in a second than a destination accepts', async () => {
    const { calls, time, run } = setUp(() => OK, { perSecond: 100 });
    const all = Promise.all(Array.from({ length: 30 }, (_, n) => run(delivery(`${n}`))));
    const begun: number[] = [];
    for (let ms = 0; calls.length < 30 && ms < 5_000; ms += 10) {
      await new Promise((resolve) => setTimeout(resolve, 1));
      time.elapsed += 10;
      begun.push(calls.length);
    }
    await all;
    for (const [at, count] of begun.entries()) {
      expect(count - (begun[at - 10] ?? 0)).toBeLessThanOrEqual(22);
    }
    expect(time.elapsed).toBeGreaterThanOrEqual(190);
  });

  it('a destination that asks to wait is not called before, and its health reports the wait', async () => {
    const busy: DeliveryResult = { outcome: 'retry', reason: 'HTTP 429', status: 429, afterMs: 2_000 };
    const remote = { answer: busy as DeliveryResult };
    const { calls, time, run, registry } = setUp(() => remote.answer);
    expect((await run(delivery('1'))).outcome).toMatchObject({ kind: 'retry', label: '10s' });
    remote.answer = OK;
    const second = run(delivery('2'));
    await turn();
    expect(calls).toHaveLength(1);
    expect(registry.health()).toMatchObject([
      {
        destination_id: 'destination',
        waiting: 1,
        retry: 1,
        last_errors: [{ status: 429 }],
        circuit: 'closed',
      },
    ]);
    time.elapsed += 2_000;
    void run(delivery('3'));
    expect((await second).outcome.kind).toBe('delivered');
  });
});
