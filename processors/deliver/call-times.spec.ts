import { describe, expect, it } from 'vitest';
import { type Ahead, CallTimes } from './call-times.ts';

function ahead(fields: Partial<Ahead> = {}): Ahead {
  return { waiting: 0, underWay: 0, oldestCallMs: 0, calls: 16, perSecond: undefined, paceMs: 0, ...fields };
}

function timesOf(callMs: number, deliveries = 1): CallTimes {
  const times = new CallTimes();
  for (let n = 0; n < 20; n++) times.ended(callMs, deliveries);
  return times;
}

describe('how long a delivery waits for its call', () => {
  it('not at all while a call is to be had', () => {
    expect(timesOf(500).waitMs(ahead({ underWay: 15 }))).toBe(0);
  });

  it('as long as the calls before it take, side by side and with as many deliveries as they carry', () => {
    expect(timesOf(160).waitMs(ahead({ waiting: 99, underWay: 16 }))).toBeCloseTo(1_000);
    expect(timesOf(160, 10).waitMs(ahead({ waiting: 990, underWay: 16 }))).toBeCloseTo(1_000);
    expect(timesOf(160).waitMs(ahead({ waiting: 5, underWay: 1, calls: 1 }))).toBeCloseTo(960);
  });

  it('by a rate that is lower than what the calls could do', () => {
    const limited = ahead({ waiting: 50, perSecond: 10, paceMs: 200 });
    expect(timesOf(5).waitMs(limited)).toBeCloseTo(5_200);
    expect(timesOf(5, 10).waitMs(limited)).toBeCloseTo(700);
  });

  it('a call that hangs tells before it ends', () => {
    const hanging = ahead({ waiting: 16, underWay: 16, oldestCallMs: 8_000 });
    expect(timesOf(5).waitMs(hanging)).toBeCloseTo((17 * 8_000) / 16);
  });

  it('by the pace alone, where it is not the destination that calls wait for', () => {
    const busy = ahead({ waiting: 1_000, underWay: 16 });
    expect(timesOf(100).waitMs(busy, true)).toBe(0);
    expect(timesOf(100).waitMs({ ...busy, perSecond: 100 }, true)).toBeCloseTo(10_010);
  });

  it('forgets how long calls took as newer ones end', () => {
    const times = timesOf(5_000);
    for (let n = 0; n < 30; n++) times.ended(10, 1);
    expect(times.callMs(0)).toBeLessThan(30);
  });
});
