import { expect, it } from 'vitest';
import { differencesOf, isSame, mergedOf } from './versions.ts';

const base = { name: 'Shop', type: 'web', tags: ['a'], note: '' };

it('states the author of each change', () => {
  const mine = { ...base, name: 'My shop', note: 'mine' };
  const stored = { ...base, type: 'ios', note: 'theirs' };
  expect(
    differencesOf(base, mine, stored).map(({ field, isMine, isClash }) => [field, isMine, isClash]),
  ).toEqual([
    ['name', true, false],
    ['type', false, false],
    ['note', true, true],
  ]);
});

it('is empty where both changed a field to the same value', () => {
  expect(differencesOf(base, { ...base, tags: ['a', 'b'] }, { ...base, tags: ['a', 'b'] })).toEqual([]);
});

it('puts the input on top of the stored version', () => {
  const mine = { ...base, name: 'My shop', note: 'mine' };
  const stored = { ...base, type: 'ios', note: 'theirs' };
  expect(mergedOf(base, mine, stored)).toEqual({ ...base, name: 'My shop', type: 'ios', note: 'mine' });
});

it.each([
  [{ a: 1, b: [1, { c: null }] }, { b: [1, { c: null }], a: 1 }, true],
  [{ a: undefined }, {}, true],
  [{ a: null }, {}, false],
  [[1, 2], [2, 1], false],
  [[], {}, false],
  [['a'], ['a', undefined], false],
  [Number.NaN, Number.NaN, true],
  ['1', 1, false],
  [null, {}, false],
])('compares %j with %j: %j', (left, right, expected) => {
  expect(isSame(left, right)).toBe(expected);
  expect(isSame(right, left)).toBe(expected);
});
