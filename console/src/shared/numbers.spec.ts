import { expect, it } from 'vitest';
import { count, counted, duration, perSecond, share } from './numbers.ts';

it('writes numbers as a person reads them', () => {
  expect([count(12_345), counted(1, 'event'), counted(2_000, 'event')]).toEqual([
    '12,345',
    '1 event',
    '2,000 events',
  ]);
  expect([0, 0.01, 0.44, 12.4, 1_204].map(perSecond)).toEqual(['0/s', '< 0.1/s', '0.4/s', '12/s', '1,204/s']);
  expect([0, 0.0001, 0.5, 0.99995, 1].map(share)).toEqual(['0%', '< 0.1%', '50%', '> 99.9%', '100%']);
  expect([35.4, 1_200, 180_000, 9_000_000, 259_200_000].map(duration)).toEqual([
    '35 ms',
    '1.2 s',
    '3 min',
    '2.5 h',
    '3 d',
  ]);
});
