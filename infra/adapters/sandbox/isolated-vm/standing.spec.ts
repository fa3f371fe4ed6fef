import { describe, expect, it } from 'vitest';
import { Standing } from './standing.ts';

describe('the standing of owners', () => {
  it('is good until one does harm, and again when it has done none for a while', () => {
    const standing = new Standing();
    expect(standing.isApart('a', 1)).toBe(false);
    standing.harmed('a', 1_000);
    expect(standing.isApart('a', 30_999)).toBe(true);
    expect(standing.isApart('b', 1_000)).toBe(false);
    standing.harmed('a', 20_000);
    expect(standing.isApart('a', 49_999)).toBe(true);
    expect(standing.isApart('a', 50_000)).toBe(false);
  });

  it('is bad for twice as long each time it is soon lost again, up to ten minutes', () => {
    const standing = new Standing();
    let now = 0;
    const lengths = Array.from({ length: 7 }, () => {
      standing.harmed('a', now);
      const from = now;
      while (standing.isApart('a', now)) now += 1_000;
      return (now - from) / 1_000;
    });
    expect(lengths).toEqual([30, 60, 120, 240, 480, 600, 600]);
    now += 600_000;
    standing.harmed('a', now);
    expect(standing.isApart('a', now + 30_000)).toBe(false);
  });

  it('forgets whom it has heard of longest ago', () => {
    const standing = new Standing();
    for (let i = 0; i <= 10_000; i++) standing.harmed(`${i}`, 0);
    expect(standing.isApart('0', 1)).toBe(false);
    expect(standing.isApart('1', 1)).toBe(true);
  });
});
