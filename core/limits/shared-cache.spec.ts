import { expect, it } from 'vitest';
import { SharedCache } from './shared-cache.ts';

it('one owner with more than fits evicted what all others use: it loses its own', () => {
  const cache = new SharedCache<number>(100);
  for (const owner of ['a', 'b']) for (let n = 0; n < 3; n++) cache.add(owner, `k${n}`, n, 10);
  for (let n = 0; n < 500; n++) cache.add('noisy', `k${n}`, n, 10);
  for (const owner of ['a', 'b']) expect([0, 1, 2].map((n) => cache.get(owner, `k${n}`))).toEqual([0, 1, 2]);
  const left = Array.from({ length: 500 }, (_, n) => n).filter((n) => cache.get('noisy', `k${n}`) === n);
  expect(left).toEqual([496, 497, 498, 499]);
});

it('keeps what was used last, and nothing that is heavier than the whole', () => {
  const cache = new SharedCache<string>(30);
  for (const key of ['x', 'y', 'z']) cache.add('a', key, key, 10);
  cache.get('a', 'x');
  cache.add('a', 'w', 'w', 10);
  expect(['x', 'y', 'z', 'w'].map((key) => cache.get('a', key))).toEqual(['x', undefined, 'z', 'w']);
  cache.add('a', 'huge', 'huge', 31);
  expect(cache.get('a', 'huge')).toBeUndefined();
  expect(cache.get('a', 'x')).toBe('x');
});
