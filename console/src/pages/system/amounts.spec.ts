import { expect, it } from 'vitest';
import { bytesText, countText, durationText, rateText } from './amounts.ts';

it('are formatted in the unit that a person would choose', () => {
  expect([0, 0.4, 59, 60, 3_599, 3_600, 11_100, 86_400, 187_200].map(durationText)).toEqual([
    '0 s',
    '0 s',
    '59 s',
    '1 min',
    '59 min',
    '1 h',
    '3 h 5 min',
    '1 d',
    '2 d 4 h',
  ]);
  expect([0, 1_023, 1_024, 100_000_000, 2 ** 50].map(bytesText)).toEqual([
    '0 B',
    '1,023 B',
    '1 KiB',
    '95.4 MiB',
    '1,024 TiB',
  ]);
  expect(countText(1_234_567)).toBe('1,234,567');
});

it('are a dash while a rate is unknown', () => {
  expect(rateText(null)).toBe('–');
  expect(rateText(0)).toBe('0/s');
  expect(rateText(1_234.56)).toBe('1,234.6/s');
});
