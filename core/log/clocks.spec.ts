import { expect, it } from 'vitest';
import { receptionTime } from './clocks.ts';

const HOUR = 3_600_000;
const APPENDED = Date.UTC(2026, 5, 3, 10, 0, 2);

it('was that of a gateway with a wrong clock: events were counted in an hour that none looked at', () => {
  const of = (offset: number) => receptionTime(APPENDED + offset, APPENDED, 'received') - APPENDED;
  expect([3 * HOUR, 6_000, -2 * HOUR, -61_000].map(of)).toEqual([0, 0, 0, 0]);
  expect([4_000, 0, -800, -10_000].map(of)).toEqual([4_000, 0, -800, -10_000]);
});

it('lies before records that were made from the received one, at any distance', () => {
  expect(receptionTime(APPENDED - 5 * HOUR, APPENDED, 'later')).toBe(APPENDED - 5 * HOUR);
  expect(receptionTime(APPENDED + 5 * HOUR, APPENDED, 'later')).toBe(APPENDED);
});
