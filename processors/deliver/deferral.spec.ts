import { type DeliveryResult, HEADER, iso, parseRetrySchedule, retryDelays } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { PartitionWindows } from '../fairness/partition-windows.ts';
import { deferralDelay, type QueueLoad, scheduleDeferral, WaitEstimate } from './deferral.ts';
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

const DELAYS = retryDelays(parseRetrySchedule(['10s', '1m', '10m', '1h', '6h']));
/** As `maxWaitMs` of the stage. */
const HELD_MS = 10_000;
const TICK_MS = 100;

/**
 * A destination that has a backlog and processes one delivery each `eachMs`; the others are deferred by an estimate, which
 * may be wrong for a while. Returns the seconds that it takes, and the writes for each delivery.
 */
function simulate(count: number, eachMs: (now: number) => number, estimatedMs = eachMs) {
  let queued = 0;
  // All are deferred at the time 0 at the latest.
  const back = new Map<number, (number | undefined)[]>([[0, Array(count).fill(undefined)]]);
  let [queueTail, writes, left, capacity, tick] = [0, 0, count, 0, 0];
  for (; left > 0; tick++) {
    const now = tick * TICK_MS;
    const estimate = estimatedMs(now);
    for (const scheduledAt of back.get(tick) ?? []) {
      const mayWaitMs = scheduledAt !== undefined && scheduledAt - now <= 2 * HELD_MS ? 2 * HELD_MS : HELD_MS;
      if (queued * eachMs(now) <= mayWaitMs) queued += 1;
      else {
        const scheduled = scheduleDeferral({
          now,
          waitMs: queued * estimate,
          eachMs: estimate,
          queueTail,
          scheduledAt,
          since: 0,
        });
        queueTail = scheduled.queueTail;
        writes += 1;
        const { ms } = deferralDelay(DELAYS, { now, at: scheduled.at });
        const at = tick + ms / TICK_MS + 1;
        const others = back.get(at);
        if (others === undefined) back.set(at, [scheduled.at]);
        else others.push(scheduled.at);
      }
    }
    back.delete(tick);
    capacity += TICK_MS / eachMs(now);
    const served = Math.min(Math.floor(capacity), queued);
    capacity -= queued === served ? capacity : served;
    queued -= served;
    left -= served;
    if (queued === 0) queueTail = 0;
  }
  return { seconds: (tick * TICK_MS) / 1_000, writesEach: writes / count };
}

describe('the delay of a deferred delivery', () => {
  it.each([
    [-5, '1s'],
    [19_999, '1s'],
    [20_000, '10s'],
    [119_999, '10s'],
    [7_200_000, '1h'],
    [9e9, '6h'],
  ])('is at most half of the %d ms to its scheduled time, or the shortest', (at, label) => {
    expect(deferralDelay(DELAYS, { now: 0, at }).label).toBe(label);
  });

  it('is as long as the destination asked for where that is longer', () => {
    expect(deferralDelay(DELAYS, { now: 0, at: 61_000, until: 60_000 }).label).toBe('1m');
    expect(deferralDelay(DELAYS, { now: 0, at: 200_000, until: 14_000 }).label).toBe('1m');
  });

  it('took 28 records for one wait that ended just before a step: it takes one', () => {
    const written = (until: number) => {
      let [now, count] = [0, 0];
      for (; until - now > HELD_MS; count++) now += deferralDelay(DELAYS, { now, at: until, until }).ms;
      return count;
    };
    expect([14_000, 59_500, 3_595_000].map(written)).toEqual([1, 1, 1]);
  });

  it.each([
    ['half an hour', 1_800, 1_000],
    ['three hours', 20_000, 500],
  ])('keeps a destination busy through a backlog of %s, with few writes a delivery', (_, count, eachMs) => {
    const { seconds, writesEach } = simulate(count, () => eachMs);
    console.log(`${count} at one in ${eachMs} ms: ${seconds} s, ${writesEach.toFixed(1)} writes each`);
    expect(seconds).toBeLessThan(((count * eachMs) / 1_000) * 1.01);
    expect(writesEach).toBeLessThan(30);
  });

  it('is over in half of the expected time where the destination becomes quick', () => {
    const { seconds } = simulate(36_000, (now) => (now < 10_000 ? 100 : 1));
    expect(seconds).toBeLessThan(1_800);
  });

  it('is over in half of the expected time where the estimate was five times too long', () => {
    const { seconds } = simulate(
      20_000,
      () => 2,
      (now) => (now < 1_000 ? 10 : 2),
    );
    expect(seconds).toBeLessThan(100);
  });

  it('grows with the wait where the destination becomes slow, so deliveries are written rarely', () => {
    const { writesEach } = simulate(3_000, (now) => (now < 10_000 ? 100 : 1_000));
    expect(writesEach).toBeLessThan(60);
  });

  it('grows with the wait where the estimate is always too short, so deliveries are written rarely', () => {
    const { seconds, writesEach } = simulate(
      10_000,
      () => 25,
      () => 0.6,
    );
    console.log(
      `10,000 at one in 25 ms, estimated at 0.6: ${seconds} s, ${writesEach.toFixed(1)} writes each`,
    );
    expect(seconds).toBeLessThan(300);
    expect(writesEach).toBeLessThan(60);
  });
});

function ahead(fields: Partial<QueueLoad> = {}): QueueLoad {
  return {
    queued: 0,
    requests: 0,
    oldestRequestMs: 0,
    concurrency: 16,
    perSecond: undefined,
    rateWaitMs: 0,
    ...fields,
  };
}

function estimateOf(callMs: number, deliveries = 1): WaitEstimate {
  const estimate = new WaitEstimate();
  for (let n = 0; n < 20; n++) estimate.requestEnded(callMs, deliveries);
  return estimate;
}

describe('how long a delivery waits for its call', () => {
  it('a hanging request lengthens the estimate before it ends', () => {
    const hanging = ahead({ queued: 16, requests: 16, oldestRequestMs: 8_000 });
    expect(estimateOf(5).waitMs(hanging)).toBeCloseTo((17 * 8_000) / 16);
  });

  it('a hiccup does not lengthen the wait of deliveries that are deferred meanwhile, unless nothing else is known', () => {
    const hanging = ahead({ queued: 1_600, requests: 16, oldestRequestMs: 8_000 });
    const estimate = estimateOf(5);
    expect(estimate.usual(hanging)).toEqual({ waitMs: (1_601 * 5) / 16, eachMs: 5 / 16 });
    for (let n = 0; n < 4; n++) estimate.requestEnded(8_000, 1);
    expect(estimate.usual(hanging).eachMs).toBeLessThan(500 / 16);
    expect(new WaitEstimate().usual(hanging).eachMs).toBe(500);
  });
});

describe('deferral of deliveries that a destination has no room for', () => {
  it('is deferred once it would wait for longer than the first retry step', async () => {
    const { begin, time, deferred } = setUpHanging();
    const begun = [begin('1'), begin('2')];
    await turn();
    time.elapsed += 5_000;
    expect(await deferred(taskOf(delivery('3')))).toBeUndefined();
    time.elapsed += 5_000;
    const result = await deferred(taskOf(delivery('3')));
    expect(result).toMatchObject({
      kind: 'deferred',
      label: '10s',
      scheduledAt: START + 20_000,
      since: START,
    });
    expect(result?.delivery.attempts).toEqual([]);
    expect(begun).toHaveLength(2);
  });

  it('waits the longer the more was deferred before it, and keeps its scheduled time', async () => {
    const { begin, time, deferred } = setUpHanging();
    void begin('1');
    void begin('2');
    await turn();
    time.elapsed += 10_000;
    const results = await Promise.all(
      Array.from({ length: 12 }, (_, n) => deferred(taskOf(delivery(`${n}`)))),
    );
    expect(results.map((one) => (one?.kind === 'deferred' ? one.label : ''))).toEqual([
      ...Array(10).fill('10s'),
      ...Array(2).fill('1m'),
    ]);
    time.now += 60_000;
    const again = await deferred(deferredTask(delivery('x'), START + 100_000, START));
    expect(again).toMatchObject({
      kind: 'deferred',
      label: '10s',
      scheduledAt: START + 100_000,
      since: START,
    });
  });

  it('a delivery whose scheduled time has come is let in before a new one', async () => {
    const { begin, time, deferred } = setUpHanging();
    void begin('1');
    void begin('2');
    await turn();
    time.elapsed += 10_000;
    expect(await deferred(taskOf(delivery('new')))).toBeDefined();
    expect(await deferred(deferredTask(delivery('old'), START + 1_000))).toBeUndefined();
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
    expect(await first).toMatchObject({ kind: 'delivered' });
  });

  it('is dead once there was no room for it for as long as a delivery may fail, however old it is', async () => {
    const { begin, time, deferred } = setUpHanging();
    void begin('1');
    void begin('2');
    await turn();
    time.elapsed += 10_000;
    const day = 24 * 3_600_000;
    const old = delivery('3', { created_at: iso(START - 3 * day) });
    expect(await deferred(taskOf(old))).toMatchObject({
      kind: 'deferred',
      since: START,
    });
    const waited = (ms: number) => deferred(deferredTask(old, START + 100_000, START - ms));
    expect(await waited(day - 1)).toMatchObject({ kind: 'deferred', since: START - day + 1 });
    expect(await waited(day)).toMatchObject({ kind: 'dead', cause: 'expired' });
  });

  it.each([
    [14_000, { kind: 'deferred', label: '10s', scheduledAt: START + 14_000, since: START }],
    [60_000, { label: '1m', scheduledAt: START + 60_000 }],
  ])('waits for as long as the destination asked, %d ms, however short the queue is', async (ms, outcome) => {
    const { run, deferred } = setUp(() => ({ outcome: 'retry', reason: 'HTTP 503', afterMs: ms }));
    await run(delivery('1'));
    expect(await deferred(taskOf(delivery('2')))).toMatchObject(outcome);
  });

  it('an overloaded process deferred deliveries that it alone delayed: they wait', async () => {
    const { begin, time, deferred } = setUpHanging();
    const begun = Array.from({ length: 100 }, (_, n) => begin(`${n}`));
    await turn();
    time.elapsed += 1_000;
    expect(await deferred(taskOf(delivery('x')))).toBeDefined();
    time.busy = 1_000;
    expect(await deferred(taskOf(delivery('x')))).toBeUndefined();
    time.elapsed += 1_000; // a slow call is not the process's fault
    expect(await deferred(taskOf(delivery('x')))).toBeDefined();
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
    expect(await deferred(taskOf(delivery('next')))).toBeUndefined();
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
    expect(await run(delivery('1'))).toMatchObject({ kind: 'retry', label: '10s' });
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
    expect((await second).kind).toBe('delivered');
  });
});
