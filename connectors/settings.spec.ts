import { expect, test, vi } from 'vitest';
import { memoizeByObject } from './settings.ts';

test('a value derived from an object is computed once, also where it is undefined', () => {
  const make = vi.fn(({ n }: { n: number }) => (n === 0 ? undefined : { twice: 2 * n }));
  const of = memoizeByObject(make);
  const [one, none] = [{ n: 1 }, { n: 0 }];
  expect([of(one), of(none), of(one), of(none)]).toEqual([{ twice: 2 }, undefined, { twice: 2 }, undefined]);
  expect(of(one)).toBe(of(one));
  expect(make).toHaveBeenCalledTimes(2);
  expect(of({ n: 1 })).not.toBe(of(one));
});
