import { expect, it } from 'vitest';
import { idIn, oneIn, stated, textIn, wholeIn } from './url-search.ts';

it('reads valid fields and drops the rest', () => {
  const id = '0198c5a2-7c1e-7b3a-9f60-2d1c5e8a4b70';
  const search = { q: 12, empty: '', object: {}, id, hours: '24', status: 'dead', far: 9_000 };
  expect(textIn(search, 'q')).toBe('12');
  expect([textIn(search, 'empty'), textIn(search, 'object'), textIn(search, 'none')]).toEqual(
    Array(3).fill(undefined),
  );
  expect([idIn(search, 'id'), idIn(search, 'q')]).toEqual([id, undefined]);
  expect([wholeIn(search, 'hours', 1, 720), wholeIn(search, 'far', 1, 720)]).toEqual([24, undefined]);
  expect([oneIn(search, 'status', ['dead']), oneIn(search, 'status', ['open'])]).toEqual(['dead', undefined]);
  expect(stated({ a: 1, b: undefined })).toEqual({ a: 1 });
});
