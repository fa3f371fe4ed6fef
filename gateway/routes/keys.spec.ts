import { expect, it } from 'vitest';
import { expiryOf } from './keys.ts';

const NOW = Date.parse('2026-03-01T12:00:00.000Z');

it('is a time to come, in UTC, or never', () => {
  expect(expiryOf(undefined, NOW)).toBeNull();
  expect(expiryOf('2026-03-01T13:30:00+01:00', NOW)).toBe('2026-03-01T12:30:00.000Z');
  expect(expiryOf('2026-03-02', NOW)).toBe('2026-03-02T00:00:00.000Z');
});

it.each([
  '2026-03-01T12:00:00Z',
  '2026-03-01',
  '2025-01-01T00:00:00Z',
  'tomorrow',
  '',
  '2026-03-02T12:00:00',
])('is not %j: expired, or no valid time', (text) => {
  expect(() => expiryOf(text, NOW)).toThrow('invalid request');
});
