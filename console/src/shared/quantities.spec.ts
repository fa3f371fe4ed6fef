import { expect, it } from 'vitest';
import { durationText, perSecondText, plural, shareText } from './quantities.ts';

it.each([
  [0, '0 ms'],
  [-3, '0 ms'],
  [0.2, '< 1 ms'],
  [12.4, '12 ms'],
  [999.7, '1 s'],
  [3_440, '3.4 s'],
  [59_960, '1 min'],
  [300_000, '5 min'],
  [7_200_000, '2 h'],
  [259_200_000, '3 days'],
])('writes %d ms as %s', (ms, text) => expect(durationText(ms)).toBe(text));

it.each([
  [0, 0, '–'],
  [0, 5, '0 %'],
  [1, 100_000, '< 0.1 %'],
  [99_999, 100_000, '> 99.9 %'],
  [1, 3, '33.3 %'],
  [5, 5, '100 %'],
])('writes %d of %d as %s', (part, whole, text) => expect(shareText(part, whole)).toBe(text));

it('counts in words', () => {
  expect([0, 1, 2_000].map((count) => plural(count, 'rule'))).toEqual(['0 rules', '1 rule', '2,000 rules']);
  expect(plural(2, 'delivery', 'deliveries')).toBe('2 deliveries');
});

it.each([
  [0, '0/s'],
  [0.01, '< 0.1/s'],
  [0.44, '0.4/s'],
  [1_204.2, '1,204/s'],
])('writes %d a second as %s', (rate, text) => expect(perSecondText(rate)).toBe(text));
