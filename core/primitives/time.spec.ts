import { describe, expect, it } from 'vitest';
import { backoffMs, canonicalTime, isCalendarDay } from './time.ts';

describe('backoff', () => {
  it('doubles up to its cap, however often', () => {
    const options = { firstMs: 50, capMs: 5_000 };
    expect([0, 1, 2, 6, 7, 10_000].map((n) => backoffMs(n, options))).toEqual([
      50, 100, 200, 3_200, 5_000, 5_000,
    ]);
  });
});

it.each([
  ['2013-02-31', false],
  ['2013-02-29', false],
  ['2012-02-29', true],
  ['1900-02-29', false],
  ['2000-02-29T00:00:00Z', true],
  ['2013-04-31T00:00:00Z', false],
  ['2013-04-30T00:00:00Z', true],
  ['2013-12-31T23:59:59.999+02:00', true],
])('knows whether %s is in the calendar', (text, there) => {
  expect(isCalendarDay(text)).toBe(there);
});

describe('the canonical form of a time', () => {
  it.each([
    ['2024-05-06', '2024-05-06T00:00:00.000Z'],
    ['2024-05-06T07:08', '2024-05-06T07:08:00.000Z'],
    ['2024-05-06 07:08:09', '2024-05-06T07:08:09.000Z'],
    ['2024-05-06t07:08:09.5z', '2024-05-06T07:08:09.500Z'],
    ['2024-05-06T07:08:09.123456+0530', '2024-05-06T01:38:09.123456Z'],
    ['2024-05-06 07:08:09.25+00', '2024-05-06T07:08:09.250Z'],
    ['2024-05-06T07:08:09,125-03', '2024-05-06T10:08:09.125Z'],
    ['2024-01-01T00:30:00.1234567891-01:00', '2024-01-01T01:30:00.123456789Z'],
    ['2024-03-01T00:30:00+02:00', '2024-02-29T22:30:00.000Z'],
    ['2016-12-31T23:59:60Z', '2017-01-01T00:00:00.000Z'],
    ['2024-05-06T24:00:00Z', '2024-05-07T00:00:00.000Z'],
    ['0001-01-01T00:00:00Z', '0001-01-01T00:00:00.000Z'],
  ])('of %s is %s, which is its own', (text, canonical) => {
    expect(canonicalTime(text)).toBe(canonical);
    expect(canonicalTime(canonical)).toBe(canonical);
  });

  it.each([
    ...'2024-05-06T07:08:09.089:Z 2024-5-06T07:08:09Z 2024-02-30T00:00:00.000Z'.split(' '),
    ...'2024-05-06T25:00:00Z 2024-05-06T24:00:01Z 2024-05-06T07:60:00.000Z'.split(' '),
    ...'2024-05-06T07:08:09+24:00 0000-12-31T23:59:59.000Z 0001-01-01T00:00:00+01:00'.split(' '),
    ...'9999-12-31T23:59:59-01:00 1714979289'.split(' '),
    '',
    'May 6, 2024',
  ])('%j has none', (text) => {
    expect(canonicalTime(text)).toBeUndefined();
  });
});
