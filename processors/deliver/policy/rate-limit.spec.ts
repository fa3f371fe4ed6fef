import { describe, expect, it } from 'vitest';
import {
  afterRequest,
  afterRetryAfter,
  allowedConcurrency,
  MAX_RETRY_AFTER_MS,
  rateWaitMs,
  slowStartAfterFailure,
  startSlowly,
  UNLIMITED,
} from './rate-limit.ts';

/** The start times of calls that are made as early as allowed. */
function beginnings(perSecond: number, count: number): readonly number[] {
  const at: number[] = [];
  let rate = UNLIMITED;
  let now = 1_000;
  while (at.length < count) {
    now += rateWaitMs(rate, perSecond, now);
    at.push(now);
    rate = afterRequest(rate, perSecond, now);
  }
  return at;
}

describe('the rate of calls', () => {
  it.each([1, 5, 100, 400])('%d a second: no second sees more than a tenth above, or one', (perSecond) => {
    const at = beginnings(perSecond, perSecond * 5);
    for (const from of at) {
      const within = at.filter((time) => time >= from && time < from + 1_000).length;
      expect(within).toBeLessThanOrEqual(Math.ceil(perSecond * 1.1) + 1);
    }
    const seconds = ((at.at(-1) ?? 0) - (at[0] ?? 0)) / 1_000;
    expect(at.length / seconds).toBeGreaterThanOrEqual(perSecond);
  });

  it('saves nothing up while nothing is called', () => {
    const rate = afterRequest(UNLIMITED, 10, 1_000);
    const later = afterRequest(rate, 10, 60_000);
    expect(rateWaitMs(afterRequest(later, 10, 60_000), 10, 60_000)).toBeGreaterThan(0);
  });

  it('has no limit where none is given', () => {
    expect(rateWaitMs(afterRequest(UNLIMITED, undefined, 5), undefined, 5)).toBe(0);
  });

  it('waits for as long as it was asked to, by the longest of several, and for an hour at most', () => {
    const asked = afterRetryAfter(afterRetryAfter(UNLIMITED, 5_000, 0), 1_000, 10);
    expect(rateWaitMs(asked, undefined, 1_000)).toBe(4_000);
    expect(rateWaitMs(asked, 1_000, 5_000)).toBe(0);
    expect(rateWaitMs(afterRetryAfter(asked, 1e12, 0), undefined, 0)).toBe(MAX_RETRY_AFTER_MS);
  });
});

describe('how a destination is given work again', () => {
  it('begins with one call at a time and doubles each second up to the limit', () => {
    const slowStart = startSlowly(0);
    expect(
      [0, 999, 1_000, 2_000, 3_000, 4_000, 1e9].map((now) => allowedConcurrency(slowStart, 16, now)),
    ).toEqual([1, 1, 2, 4, 8, 16, 16]);
    expect(allowedConcurrency(undefined, 16, 0)).toBe(16);
  });

  it('halves at a failure, once for all calls that were under way together', () => {
    const slowStart = startSlowly(0);
    const failed = slowStartAfterFailure(slowStart, { asked: false, beganAt: 2_900, max: 16 }, 3_000);
    expect(allowedConcurrency(failed, 16, 3_000)).toBe(4);
    expect(slowStartAfterFailure(failed, { asked: false, beganAt: 2_950, max: 16 }, 3_050)).toBe(failed);
    const least = slowStartAfterFailure(startSlowly(0), { asked: false, beganAt: 10, max: 16 }, 20);
    expect(allowedConcurrency(least, 16, 20)).toBe(1);
  });

  it('begins when a destination asks for less; other failures are left to the breaker', () => {
    expect(slowStartAfterFailure(undefined, { asked: false, beganAt: 0, max: 16 }, 10)).toBeUndefined();
    expect(
      allowedConcurrency(slowStartAfterFailure(undefined, { asked: true, beganAt: 0, max: 16 }, 10), 16, 10),
    ).toBe(8);
  });
});
