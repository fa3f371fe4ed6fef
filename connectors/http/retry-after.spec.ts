import { expect, test } from 'vitest';
import { parseRetryAfter } from './retry-after.ts';

const NOW = Date.parse('1994-11-06T08:49:30Z');

test.each([
  ['0', 0],
  ['120', 120_000],
  [' 7 ', 7_000],
  ['Sun, 06 Nov 1994 08:49:37 GMT', 7_000],
  ['Sunday, 06-Nov-94 08:49:37 GMT', 7_000],
  ['Sun Nov  6 08:49:37 1994', 7_000],
  ['Sun, 06 Nov 1994 08:00:00 GMT', 0],
])('"%s" asks for %d ms', (header, ms) => {
  expect(parseRetryAfter(header, NOW)).toBe(ms);
});

test.each(['', '-1', '1.5', '1e3', 'soon', '12345678901', 'Infinity', 'Xyz, whenever'])(
  '"%s" asks for nothing',
  (header) => {
    expect(parseRetryAfter(header, NOW)).toBeUndefined();
  },
);
