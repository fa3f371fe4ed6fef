import { expect, it } from 'vitest';
import { LeakyShares } from './leaky-shares.ts';

it('makes a name wait by what it used beyond its burst, and no other name', () => {
  let now = 0;
  const shares = new LeakyShares({ perSecond: 10, burst: 100, elapsed: () => now });
  shares.charge('a', 100);
  expect([shares.waitMs('a'), shares.isInUse('a'), shares.isInUse('b')]).toEqual([0, true, false]);
  shares.charge('a', 50);
  expect([shares.waitMs('a'), shares.waitMs('b')]).toEqual([5_000, 0]);
  now = 5_000;
  expect(shares.waitMs('a')).toBe(0);
  now = 15_000;
  expect(shares.isInUse('a')).toBe(false);
});

it('bounds the wait, however much was used', () => {
  const shares = new LeakyShares({ perSecond: 10, burst: 100, elapsed: () => 0 });
  shares.charge('a', 1e9);
  expect(shares.waitMs('a')).toBe(60_000);
});

it('remembers a bounded number of names', () => {
  const shares = new LeakyShares({ perSecond: 1, burst: 1, elapsed: () => 0 });
  for (let n = 0; n <= 10_000; n++) shares.charge(`${n}`, 5);
  expect([shares.waitMs('0'), shares.waitMs('10000')]).toEqual([0, 4_000]);
});
