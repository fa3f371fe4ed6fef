import { expect, it } from 'vitest';
import { expiryOf, expiryStateOf } from './expiry.ts';

const NOW = Date.parse('2026-03-01T12:00:00.000Z');

it('is so many days from now, or never', () => {
  expect(expiryOf('30', '', NOW)).toBe('2026-03-31T12:00:00.000Z');
  expect(expiryOf('never', '2026-03-09', NOW)).toBeNull();
});

it('is the end of a day of the calendar of the viewer', () => {
  expect(expiryOf('until', '2026-03-09', NOW)).toBe(new Date(2026, 2, 9, 23, 59, 59, 999).toISOString());
});

it('leaves the refusal of an invalid day to the API', () => {
  expect(expiryOf('until', '', NOW)).toBe('');
  expect(expiryOf('until', 'soon', NOW)).toBe('soon');
});

it.each([
  [null, 'never'],
  ['2026-03-01T12:00:00.000Z', 'expired'],
  ['2026-03-10T00:00:00.000Z', 'soon'],
  ['2026-06-01T00:00:00.000Z', 'later'],
])('of %j is %s', (expiresAt, expected) => {
  expect(expiryStateOf(expiresAt, NOW)).toBe(expected);
});
