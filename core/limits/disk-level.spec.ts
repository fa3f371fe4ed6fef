import { expect, it } from 'vitest';
import { type DiskLevel, diskLevelOf, diskReserveOf, isDiskAtLeast, worstDiskLevel } from './disk-level.ts';

const GIB = 2 ** 30;

it.each([
  [undefined, 1_000 * GIB, 5 * GIB],
  [undefined, 10 * GIB, 2.5 * GIB],
  [7, GIB, 7],
  [0, GIB, 0],
])(
  'the reserve is as configured, else a quarter of the disk and 5 GiB at most: %s of %s',
  (configured, size, reserve) => {
    expect(diskReserveOf(configured, size)).toBe(reserve);
  },
);

it('a level ends a tenth of the reserve above where it began, so that levels do not alternate', () => {
  let level: DiskLevel = 'enough';
  const levels = [101, 99, 105, 110, 84, 94, 95, 19, 29, 30, 9, 19, 20, 0, 200].map((free) => {
    level = diskLevelOf(free, 100, level);
    return level;
  });
  expect(levels.join(' ')).toBe(
    'enough scarce scarce enough low low scarce exhausted exhausted low full full exhausted full enough',
  );
});

it('nothing is refused without a reserve', () => {
  expect(diskLevelOf(0, 0, 'full')).toBe('enough');
});

it('levels are compared from enough to full', () => {
  expect(isDiskAtLeast('low', 'scarce')).toBe(true);
  expect(isDiskAtLeast('low', 'low')).toBe(true);
  expect(isDiskAtLeast('scarce', 'low')).toBe(false);
  expect(worstDiskLevel('scarce', 'exhausted', 'enough')).toBe('exhausted');
  expect(worstDiskLevel()).toBe('enough');
});
