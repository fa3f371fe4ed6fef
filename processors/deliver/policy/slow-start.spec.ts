import { describe, expect, it } from 'vitest';
import { allowedConcurrency, slowStartAfterFailure, startSlowly } from './slow-start.ts';

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
