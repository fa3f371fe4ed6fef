import { describe, expect, it } from 'vitest';
import { Reputation } from './worker-slots.ts';

describe('the reputation of owners', () => {
  it('quarantines an owner after harm, until it has done none for a while', () => {
    const reputation = new Reputation();
    expect(reputation.isQuarantined('a', 1)).toBe(false);
    reputation.recordHarm('a', 1_000);
    expect(reputation.isQuarantined('a', 30_999)).toBe(true);
    expect(reputation.isQuarantined('b', 1_000)).toBe(false);
    reputation.recordHarm('a', 20_000);
    expect(reputation.isQuarantined('a', 49_999)).toBe(true);
    expect(reputation.isQuarantined('a', 50_000)).toBe(false);
  });

  it('doubles the quarantine with each harm soon after the last one, up to ten minutes', () => {
    const reputation = new Reputation();
    let now = 0;
    const lengths = Array.from({ length: 7 }, () => {
      reputation.recordHarm('a', now);
      const from = now;
      while (reputation.isQuarantined('a', now)) now += 1_000;
      return (now - from) / 1_000;
    });
    expect(lengths).toEqual([30, 60, 120, 240, 480, 600, 600]);
    now += 600_000;
    reputation.recordHarm('a', now);
    expect(reputation.isQuarantined('a', now + 30_000)).toBe(false);
  });

  it('forgets the owner that did harm longest ago', () => {
    const reputation = new Reputation();
    for (let i = 0; i <= 10_000; i++) reputation.recordHarm(`${i}`, 0);
    expect(reputation.isQuarantined('0', 1)).toBe(false);
    expect(reputation.isQuarantined('1', 1)).toBe(true);
  });
});
