import { describe, expect, it } from 'vitest';
import { MAX_HOLD_MS, pacedAfterAsked, pacedAfterCall, paceWaitMs, UNPACED } from './pace.ts';

/** When calls begin that are made as soon as they may. */
function beginnings(perSecond: number, count: number): readonly number[] {
  const at: number[] = [];
  let pace = UNPACED;
  let now = 1_000;
  while (at.length < count) {
    now += paceWaitMs(pace, perSecond, now);
    at.push(now);
    pace = pacedAfterCall(pace, perSecond, now);
  }
  return at;
}

describe('the pace of calls', () => {
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
    const pace = pacedAfterCall(UNPACED, 10, 1_000);
    const later = pacedAfterCall(pace, 10, 60_000);
    expect(paceWaitMs(pacedAfterCall(later, 10, 60_000), 10, 60_000)).toBeGreaterThan(0);
  });

  it('has no limit where none is given', () => {
    expect(paceWaitMs(pacedAfterCall(UNPACED, undefined, 5), undefined, 5)).toBe(0);
  });

  it('waits for as long as it was asked to, by the longest of several, and for an hour at most', () => {
    const asked = pacedAfterAsked(pacedAfterAsked(UNPACED, 5_000, 0), 1_000, 10);
    expect(paceWaitMs(asked, undefined, 1_000)).toBe(4_000);
    expect(paceWaitMs(asked, 1_000, 5_000)).toBe(0);
    expect(paceWaitMs(pacedAfterAsked(asked, 1e12, 0), undefined, 0)).toBe(MAX_HOLD_MS);
  });
});
