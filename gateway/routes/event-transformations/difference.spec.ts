import type { Json } from '@tributary/core';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { firstDifference } from './difference.ts';

describe('firstDifference', () => {
  it.each<[Json, Json, string | undefined]>([
    [{ a: 1, b: [1, { c: null }] }, { b: [1, { c: null }], a: 1 }, undefined],
    [1, 2, ''],
    [[1], { 0: 1 }, ''],
    [{ a: { b: 1 } }, { a: { b: '1' } }, '/a/b'],
    [{ a: 1 }, { a: 1, b: null }, '/b'],
    [{ a: 1, b: null }, { a: 1 }, '/b'],
    [[{ x: 1 }, { x: 2 }], [{ x: 1 }, { x: 3 }], '/1/x'],
    [{ 'a/b~': 1 }, { 'a/b~': 2 }, '/a~1b~0'],
    [JSON.parse('{"constructor":1}'), {}, '/constructor'],
  ])('of %j and %j is %j', (actual, expected, place) => {
    expect(firstDifference(actual, expected)).toBe(place);
  });

  it('finds none between a value and its copy with members in another order', () => {
    const reversed = (value: Json): Json => {
      if (typeof value !== 'object' || value === null) return value;
      if (Array.isArray(value)) return value.map(reversed);
      return Object.fromEntries(
        Object.entries(value)
          .reverse()
          .map(([key, member]) => [key, reversed(member)]),
      );
    };
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const json = JSON.parse(JSON.stringify(value)) as Json;
        expect(firstDifference(json, reversed(json))).toBeUndefined();
      }),
    );
  });
});
