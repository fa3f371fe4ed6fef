import { expect, it } from 'vitest';
import { RecentMap } from './recent-map.ts';

it('drops the oldest past its limit; setting an entry again makes it the youngest', () => {
  const map = new RecentMap<string, number>(2);
  map.set('a', 1);
  map.set('b', 2);
  map.set('a', 3);
  map.set('c', 4);
  expect([map.get('a'), map.get('b'), map.get('c')]).toEqual([3, undefined, 4]);
  expect([map.take('a'), map.take('a')]).toEqual([3, undefined]);
});
