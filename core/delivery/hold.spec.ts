import { expect, it } from 'vitest';
import { holdStep } from './hold.ts';
import { DEFAULT_LADDER_LABELS, parseLadder } from './retry.ts';

const ladder = parseLadder(DEFAULT_LADDER_LABELS);

it.each([
  [-5_000, '10s'],
  [0, '10s'],
  [59_999, '10s'],
  [60_000, '1m'],
  [30 * 60_000, '10m'],
  [3_600_000, '1h'],
  [7 * 24 * 3_600_000, '1h'],
])('after %d ms of pause what waits comes back after %s', (pausedMs, label) => {
  expect(holdStep(ladder, pausedMs).label).toBe(label);
});

it('a ladder with no step as short as an hour is used all the same', () => {
  expect(holdStep(parseLadder(['6h']), 1_000).label).toBe('6h');
});
