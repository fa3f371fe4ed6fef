import { expect, it } from 'vitest';
import { isUsable } from './usable.ts';

const END = '2026-01-01T00:00:00.000Z';
const end = Date.parse(END);

it('is good until it is revoked or expires, and never after', () => {
  expect(isUsable({ status: 'active' }, end)).toBe(true);
  expect(isUsable({ status: 'active', expires_at: null }, end)).toBe(true);
  expect(isUsable({ status: 'active', expires_at: END }, end - 1)).toBe(true);
  expect(isUsable({ status: 'active', expires_at: END }, end)).toBe(false);
  expect(isUsable({ status: 'revoked', expires_at: END }, end - 1)).toBe(false);
  expect(isUsable({ status: 'revoked' }, end)).toBe(false);
});

it('is not good for ever because of a time that is none', () => {
  expect(isUsable({ status: 'active', expires_at: 'soon' }, end)).toBe(false);
});
