import { parseRetrySchedule } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { type QueueLoad, scheduleSlot, WaitEstimate } from './deferral.ts';

const SCHEDULE = parseRetrySchedule(['10s', '1m', '10m']);

/** A destination that processes one delivery each `eachMs`, queues some of them, and defers the rest. */
function simulate(count: number, eachMs: number, heldMs: number) {
  const queued: number[] = [];
  let deferred = Array.from({ length: count }, () => ({
    back: 0,
    slot: undefined as number | undefined,
    waits: 0,
  }));
  let [queueTail, idle, writes, most] = [0, 0, 0, 0];
  let now = 0;
  for (; deferred.length > 0 || queued.length > 0; now += eachMs) {
    const come = deferred.filter(({ back }) => back <= now);
    deferred = deferred.filter(({ back }) => back > now);
    for (const one of come) {
      const waitMs = queued.length * eachMs;
      const dueMs = one.slot === undefined ? heldMs : heldMs * 2;
      if (waitMs <= dueMs) queued.push(one.waits);
      else {
        const slot = scheduleSlot({ now, waitMs, eachMs, queueTail, slot: one.slot, schedule: SCHEDULE });
        queueTail = slot.queueTail;
        writes += 1;
        deferred.push({ back: now + slot.step.ms * 1.1, slot: slot.at, waits: one.waits + 1 });
      }
    }
    const served = queued.shift();
    if (served === undefined) idle += 1;
    else most = Math.max(most, served);
  }
  return { seconds: now / 1_000, idle, writes, most };
}

describe('the slot of a delivery that its destination has no room for', () => {
  it('lies behind the slots given before, and is kept', () => {
    const question = {
      now: 1_000,
      waitMs: 12_000,
      eachMs: 100,
      queueTail: 0,
      slot: undefined,
      schedule: SCHEDULE,
    };
    const first = scheduleSlot(question);
    expect(first).toEqual({ at: 13_000, step: SCHEDULE[0], queueTail: 13_100 });
    const second = scheduleSlot({ ...question, queueTail: first.queueTail });
    expect(second.at).toBe(13_100);
    const again = scheduleSlot({ ...question, now: 9_000, queueTail: 99_999, slot: second.at });
    expect(again).toEqual({ at: 13_100, step: SCHEDULE[0], queueTail: 99_999 });
  });

  it.each([
    [61_000, 1],
    [599_000, 1],
    [601_000, 2],
    [9e9, 2],
    [-5, 0],
  ])('%d ms before it the delivery waits on the longest step that ends before', (aheadMs, step) => {
    const slot = scheduleSlot({
      now: 0,
      waitMs: 0,
      eachMs: 1,
      queueTail: 0,
      slot: aheadMs,
      schedule: SCHEDULE,
    });
    expect(slot.step).toBe(SCHEDULE[step]);
  });

  it('a backlog of half an hour keeps the destination busy to the end, with few writes a delivery', () => {
    const { idle, writes, most, seconds } = simulate(1_800, 1_000, 12_000);
    console.log(`1,800 at one a second: ${seconds} s, idle ${idle} s, ${writes / 1_800} writes each`);
    expect(idle).toBeLessThan(seconds * 0.05);
    expect(writes / 1_800).toBeLessThan(12);
    expect(most).toBeLessThan(100);
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
  it('not at all while a call is to be had', () => {
    expect(estimateOf(500).waitMs(ahead({ requests: 15 }))).toBe(0);
  });

  it('as long as the calls before it take, side by side and with as many deliveries as they carry', () => {
    expect(estimateOf(160).waitMs(ahead({ queued: 99, requests: 16 }))).toBeCloseTo(1_000);
    expect(estimateOf(160, 10).waitMs(ahead({ queued: 990, requests: 16 }))).toBeCloseTo(1_000);
    expect(estimateOf(160).waitMs(ahead({ queued: 5, requests: 1, concurrency: 1 }))).toBeCloseTo(960);
  });

  it('by a rate below the capacity of the calls', () => {
    const limited = ahead({ queued: 50, perSecond: 10, rateWaitMs: 200 });
    expect(estimateOf(5).waitMs(limited)).toBeCloseTo(5_200);
    expect(estimateOf(5, 10).waitMs(limited)).toBeCloseTo(700);
  });

  it('a hanging request lengthens the estimate before it ends', () => {
    const hanging = ahead({ queued: 16, requests: 16, oldestRequestMs: 8_000 });
    expect(estimateOf(5).waitMs(hanging)).toBeCloseTo((17 * 8_000) / 16);
  });

  it('by the pace alone, where it is not the destination that calls wait for', () => {
    const busy = ahead({ queued: 1_000, requests: 16 });
    expect(estimateOf(100).waitMs(busy, true)).toBe(0);
    expect(estimateOf(100).waitMs({ ...busy, perSecond: 100 }, true)).toBeCloseTo(10_010);
  });

  it('forgets how long calls took as newer ones end', () => {
    const estimate = estimateOf(5_000);
    for (let n = 0; n < 30; n++) estimate.requestEnded(10, 1);
    expect(estimate.requestMs(0)).toBeLessThan(30);
  });
});
