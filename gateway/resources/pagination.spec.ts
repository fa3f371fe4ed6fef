import { describe, expect, it } from 'vitest';
import { decodePosition, encodePosition, NEWEST_FIRST } from './lists.ts';

const ID = '0198c5a2-7c1e-7b3a-9f60-2d1c5e8a4b70';
const BY_NAME = { field: 'name', descending: false } as const;

describe('a cursor', () => {
  it.each([
    [NEWEST_FIRST, '2026-03-01T09:30:00.000Z'],
    [BY_NAME, ''],
    [BY_NAME, 'a b\n🚀'],
    [{ field: 'updated_at', descending: true }, '2026-03-01T09:30:00.000Z'],
  ] as const)('of the order %j holds the place %j', (order, key) => {
    expect(decodePosition(encodePosition({ key, id: ID }, order), order)).toEqual({ key, id: ID });
  });

  it('of the default order has the form that earlier releases take', () => {
    const cursor = encodePosition({ key: '2026-03-01T09:30:00.000Z', id: ID }, NEWEST_FIRST);
    expect(Buffer.from(cursor, 'base64url').toString()).toBe(`2026-03-01T09:30:00.000Z ${ID}`);
  });

  it.each([
    'x',
    '!!!',
    Buffer.from('2020 x').toString('base64url'),
    encodePosition({ key: 'a', id: ID }, BY_NAME),
  ])('of another form is refused: %j', (cursor) => {
    expect(() => decodePosition(cursor, NEWEST_FIRST)).toThrow('invalid request');
    expect(() => decodePosition(cursor, { field: 'name', descending: true })).toThrow('invalid request');
  });
});
