import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { NamedRegister, Register } from './profile.ts';
import { joinNamed, newerOf, stampNamed } from './registers.ts';

const register: fc.Arbitrary<NamedRegister> = fc
  .record({
    name: fc.constantFrom('a', 'b', '__proto__'),
    value: fc.constantFrom('yes', 'no', { a: 1, b: 2 }, { b: 2, a: 1 }, null),
    ts: fc.nat(3),
    isUnset: fc.boolean(),
  })
  .map(({ isUnset, ...one }) => (one.value === null && isUnset ? { ...one, unset: true as const } : one));

describe('named registers', () => {
  it('are the newest of each name, in every order and in whatever parts they come', () => {
    fc.assert(
      fc.property(fc.array(register, { maxLength: 10 }), fc.nat(10), (some, cut) => {
        const joined = joinNamed([], some);
        expect(joinNamed([], [...some].reverse())).toEqual(joined);
        expect(joinNamed(joinNamed([], some.slice(cut)), some.slice(0, cut))).toEqual(joined);
        expect(joinNamed(joined, some)).toBe(joined);
        for (const one of joined) {
          const same = some.filter(({ name }) => name === one.name);
          expect(Math.max(...same.map(({ ts }) => ts))).toBe(one.ts);
        }
        expect(joined.map(({ name }) => name)).toEqual([...new Set(some.map(({ name }) => name))].sort());
      }),
    );
  });

  it('written without a time of their own replace existing ones', () => {
    const held = [{ name: 'a', value: 'yes', ts: 50 }];
    expect(stampNamed(held, [{ name: 'a', value: 'no' }], undefined, 10)).toEqual([
      { name: 'a', value: 'no', ts: 51 },
    ]);
    expect(stampNamed(held, [{ name: 'b', value: 'no' }], undefined, 10)[0]?.ts).toBe(10);
    expect(stampNamed(held, [{ name: 'a', value: 'no' }], 20, 10)[0]?.ts).toBe(20);
  });
});

it('of two values of one time the greater JSON wins, whatever the order of their members', () => {
  const [left, right] = [
    { value: { a: 1, b: 2 }, ts: 1 },
    { value: { b: 2, a: 1 }, ts: 1 },
  ];
  expect(newerOf(left, right)).toBe(left);
  expect(newerOf(right, left)).toBe(right);
  expect(newerOf({ value: 'a', ts: 1 }, { value: 'b', ts: 1 }).value).toBe('b');
});

it('of two events of one request the last word counts, also when the first is the greater JSON', () => {
  const first: Register = { value: 'pro', ts: 1, order: 7 };
  const last: Register = { value: 'free', ts: 1, order: 8 };
  expect([newerOf(first, last), newerOf(last, first)]).toEqual([last, last]);
  expect(newerOf({ value: 'z', ts: 1 }, first)).toBe(first);
  expect(newerOf({ value: 'a', ts: 2 }, last).value).toBe('a');
});
