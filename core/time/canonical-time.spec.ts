import { expect, it } from 'vitest';
import { isCalendarDay } from './canonical-time.ts';

it.each([
  ['2013-02-31', false],
  ['2013-02-29', false],
  ['2012-02-29', true],
  ['1900-02-29', false],
  ['2000-02-29T00:00:00Z', true],
  ['2013-04-31T00:00:00Z', false],
  ['2013-04-30T00:00:00Z', true],
  ['2013-12-31T23:59:59.999+02:00', true],
])('knows whether %s is in the calendar', (text, there) => {
  expect(isCalendarDay(text)).toBe(there);
});
