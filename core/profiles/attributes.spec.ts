import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../event/event.ts';
import type { ProfileAttribute } from './profile.ts';
import { attributeTree, joinAttributes, newerOf, stampAttributes, visibleAttributes } from './registers.ts';

const at = (ts: number, value: ProfileAttribute['value'], ...path: string[]): ProfileAttribute => ({
  path,
  value,
  ts,
});
const join = (attributes: readonly ProfileAttribute[]) =>
  attributes.reduce<readonly ProfileAttribute[]>((held, attribute) => joinAttributes(held, [attribute]), []);
const tree = (...attributes: readonly ProfileAttribute[]) => attributeTree(join(attributes));

/** Few paths and times, so that paths overlap and times are equal. */
const attribute: fc.Arbitrary<ProfileAttribute> = fc
  .record({
    path: fc.array(fc.constantFrom('a', 'b', ''), { minLength: 1, maxLength: 3 }),
    value: fc.constantFrom('x', 'y', 7, null, {}, { c: 1 }),
    ts: fc.nat(5),
    isUnset: fc.boolean(),
  })
  .map(({ isUnset, ...one }) => (one.value === null && isUnset ? { ...one, unset: true as const } : one));
const shuffled = fc
  .array(attribute, { maxLength: 12 })
  .chain((some) => fc.tuple(fc.constant(some), fc.shuffledSubarray(some, { minLength: some.length })));

/** Applies writes in the order of their times. */
function replay(attributes: readonly ProfileAttribute[]): readonly ProfileAttribute[] {
  const isEmpty = ({ value }: ProfileAttribute) => JSON.stringify(value) === '{}';
  const place = (one: ProfileAttribute) => (isEmpty(one) ? [...one.path, undefined] : one.path);
  const within = (inner: ProfileAttribute, outer: ProfileAttribute) =>
    place(outer).every((name, index) => index < place(inner).length && place(inner)[index] === name);
  const inOrder = [...attributes].sort(
    (a, b) => a.ts - b.ts || place(a).length - place(b).length || (newerOf(a, b) === b ? -1 : 1),
  );
  let there: ProfileAttribute[] = [];
  for (const one of inOrder)
    there = [...there.filter((other) => !within(other, one) && !within(one, other)), one];
  return there;
}

describe('attributes', () => {
  it('that were unset are set again by an older write, and by another order of the writes', () => {
    const unset = (ts: number, ...path: string[]): ProfileAttribute => ({
      ...at(ts, null, ...path),
      unset: true,
    });
    for (const all of [
      [at(3, 'Jena', 'home', 'city'), unset(5, 'home', 'city'), at(4, 'Gera', 'home', 'city')],
      [at(3, 'Jena', 'home', 'city'), at(2, {}, 'home'), unset(9, 'home'), at(8, 12, 'home', 'floor')],
      [at(3, 'a tent', 'home'), unset(4, 'home', 'city')],
    ]) {
      expect(tree(...all)).toEqual({});
      expect(tree(...all.reverse())).toEqual({});
    }
    expect(tree(unset(5, 'home'), at(6, 'Suhl', 'home', 'city'))).toEqual({ home: { city: 'Suhl' } });
    expect(tree(unset(5, 'home', 'city'), at(5, null, 'home', 'city'))).toEqual({ home: { city: null } });
  });

  it('say by an empty object that there is one, beside its attributes', () => {
    expect(tree(at(1, {}, 'groups', 'UA'))).toEqual({ groups: { UA: {} } });
    expect(tree(at(1, 'United', 'groups', 'UA', 'name'), at(2, {}, 'groups', 'UA'))).toEqual({
      groups: { UA: { name: 'United' } },
    });
    expect(tree(at(1, { city: 'x' }, 'd', 'address'), at(2, {}, 'd', 'address'))).toEqual({
      d: { address: {} },
    });
    expect(tree(at(2, 'none', 'groups'), at(1, {}, 'groups', 'UA'))).toEqual({ groups: 'none' });
  });

  it('pollute nothing, whatever a person calls them', () => {
    const polluting = tree(at(1, true, '__proto__', 'polluted'), at(1, 1, 'constructor', 'prototype'));
    expect(JSON.stringify(polluting)).toBe('{"__proto__":{"polluted":true},"constructor":{"prototype":1}}');
    expect(Object.hasOwn(Object.prototype, 'polluted')).toBe(false);
  });

  it('are the same in every order of writes, and in whatever parts they come', () => {
    fc.assert(
      fc.property(shuffled, fc.nat(12), ([some, others], cut) => {
        const expected = join(some);
        expect(join(others)).toEqual(expected);
        expect(joinAttributes(join(others.slice(0, cut)), join(others.slice(cut)))).toEqual(expected);
        expect(joinAttributes(expected, join(others.slice(cut)))).toBe(expected);
      }),
    );
  });

  it('are those of a serial replay by time', () => {
    fc.assert(
      fc.property(fc.array(attribute, { maxLength: 12 }), (some) => {
        const visible = visibleAttributes(join(some));
        expect(new Set(visible.map((one) => JSON.stringify(one)))).toEqual(
          new Set(replay(some).flatMap((one) => (one.unset === true ? [] : JSON.stringify(one)))),
        );
      }),
    );
  });

  it('written without a time are one later than the newest they replace, at, above or within their path', () => {
    const isEmpty = ({ value }: Pick<ProfileAttribute, 'value'>) => JSON.stringify(value) === '{}';
    const place = (one: Pick<ProfileAttribute, 'path' | 'value'>) => [
      ...one.path,
      ...(isEmpty(one) ? [0] : []),
    ];
    const startsWith = (all: readonly unknown[], start: readonly unknown[]) =>
      start.every((name, index) => index < all.length && all[index] === name);
    fc.assert(
      fc.property(
        fc.array(attribute, { maxLength: 8 }),
        fc.array(attribute, { maxLength: 4 }),
        (some, others) => {
          const held = join(some);
          // Other values than the held ones: a category that is a value, and is written once more, stays as it is.
          const written = others.map((one) => ({ path: one.path, value: isEmpty(one) ? {} : 'new' }));
          const expected = written.map((one) =>
            held
              .filter((other) => startsWith(place(one), place(other)) || startsWith(place(other), place(one)))
              .reduce((ts, other) => Math.max(ts, other.ts + 1), 2),
          );
          expect(stampAttributes(held, written, undefined, 2).map(({ ts }) => ts)).toEqual(expected);
        },
      ),
    );
  });
});

it('an unset of what is unset already has its own time: a value of a time between the two does not return', () => {
  const held: readonly ProfileAttribute[] = [
    { path: ['plan', 'coupon'], value: null, unset: true, ts: 3 },
    { path: ['plan', 'name'], value: 'pro', ts: 7 },
  ];
  // 7 is also the time that a record shows for its category `plan`.
  const unset = stampAttributes(held, [{ path: ['plan', 'coupon'], value: null, unset: true }], 7, 9);
  const late = joinAttributes(joinAttributes(held, unset), [
    { path: ['plan', 'coupon'], value: 'SPRING', ts: 5 },
  ]);
  expect(attributeTree(late)).toEqual({ plan: { name: 'pro' } });
});

describe('an object that is written where events have attributes', () => {
  const group = (name: string, value: string, ts: number, order: number): ProfileAttribute => ({
    path: ['groups', 'g', name],
    value,
    ts,
    order,
  });
  const held = joinAttributes([], [group('name', 'Acme', 3, 1), group('plan', 'pro', 5, 2)]);
  const written = (value: JsonObject, ts?: number) =>
    joinAttributes(
      held,
      stampAttributes(
        held,
        [{ path: ['groups', 'g'], value, ...(ts === undefined ? {} : { ts }) }],
        undefined,
        9,
      ),
    );

  it('hid or was hidden: the record that was read changes nothing, and later events one attribute only', () => {
    expect(written({ name: 'Acme', plan: 'pro' }, 5)).toBe(held);
    const changed = written({ name: 'Acme', plan: 'free' }, 5);
    expect(attributeTree(changed)).toEqual({ groups: { g: { name: 'Acme', plan: 'free' } } });
    const later = joinAttributes(changed, [group('name', 'Acme Ltd', 6, 3)]);
    expect(attributeTree(later)).toEqual({ groups: { g: { name: 'Acme Ltd', plan: 'free' } } });
  });

  it('has no other members afterwards', () => {
    expect(attributeTree(written({ plan: 'free', seats: 2 }))).toEqual({
      groups: { g: { plan: 'free', seats: 2 } },
    });
    expect(attributeTree(written({ plan: 'free' }, 4))).toEqual({ groups: { g: { plan: 'pro' } } });
  });
});
