import { describe, expect, it } from 'vitest';
import { type QueueLoad, WaitEstimate } from './wait-estimate.ts';

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

  it('by a rate that is lower than what the calls could do', () => {
    const limited = ahead({ queued: 50, perSecond: 10, rateWaitMs: 200 });
    expect(estimateOf(5).waitMs(limited)).toBeCloseTo(5_200);
    expect(estimateOf(5, 10).waitMs(limited)).toBeCloseTo(700);
  });

  it('a call that hangs tells before it ends', () => {
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
