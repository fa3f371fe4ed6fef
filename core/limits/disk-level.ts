/**
 * How far the free space of a disk has fallen into its reserve, from best to worst:
 * - `enough`: the reserve is untouched;
 * - `scarce`: stages emit nothing more for organizations that use more than a fair share;
 * - `low`: events of these organizations are refused as well;
 * - `exhausted`: events and profile writes of everyone are refused; stages finish what was taken;
 * - `full`: stages take nothing more. The rest is kept for removals and sign-in.
 */
export const DISK_LEVELS = ['enough', 'scarce', 'low', 'exhausted', 'full'] as const;

export type DiskLevel = (typeof DISK_LEVELS)[number];

/** The level measured last; costs nothing. */
export type ReadDiskLevel = () => DiskLevel;

/** The fullest disk that events are kept on, bytes. `free` is without missing ballast. */
export interface DiskRoom {
  readonly free: number;
  readonly reserve: number;
}

/** The space measured last; costs nothing. Undefined: no disk is measured, or it has no reserve. */
export type ReadDiskRoom = () => DiskRoom | undefined;

/** Where no disk is measured. */
export const UNLIMITED_DISK: ReadDiskLevel = () => 'enough';

/** The level begins below this part of the reserve, percent. */
const BEGINS_BELOW: Readonly<Record<Exclude<DiskLevel, 'enough'>, number>> = {
  scarce: 100,
  low: 85,
  exhausted: 20,
  full: 10,
};

/** Free space beyond its threshold that ends a level, as a part of the reserve, percent: levels must not alternate. */
const RECOVERY = 10;

/** The largest default reserve, and its part of a smaller disk. */
const DEFAULT_RESERVE = { bytes: 5 * 2 ** 30, part: 0.25 } as const;

/** Whether the level is as bad as `than`, or worse. */
export function isDiskAtLeast(level: DiskLevel, than: DiskLevel): boolean {
  return DISK_LEVELS.indexOf(level) >= DISK_LEVELS.indexOf(than);
}

export function worstDiskLevel(...levels: readonly DiskLevel[]): DiskLevel {
  let worst: DiskLevel = 'enough';
  for (const level of levels) if (isDiskAtLeast(level, worst)) worst = level;
  return worst;
}

/** The reserve of a disk of this size, bytes. 0: there is none, and the level is always `enough`. */
export function diskReserveOf(configured: number | undefined, size: number): number {
  return configured ?? Math.min(DEFAULT_RESERVE.bytes, Math.floor(size * DEFAULT_RESERVE.part));
}

/** The disk with the least free space in relation to its reserve, of those that have one. */
export function fullestDisk(...disks: readonly (DiskRoom | undefined)[]): DiskRoom | undefined {
  const [fullest] = disks
    .filter((disk): disk is DiskRoom => disk !== undefined && disk.reserve > 0)
    .toSorted((a, b) => a.free * b.reserve - b.free * a.reserve);
  return fullest;
}

/** Free bytes until events of everyone are refused. */
export function bytesUntilExhausted({ free, reserve }: DiskRoom): number {
  return Math.max(0, free - Math.floor((reserve * BEGINS_BELOW.exhausted) / 100));
}

/** The level at this free space, after the level `before`. */
export function diskLevelOf(free: number, reserve: number, before: DiskLevel): DiskLevel {
  const isBelow = (level: Exclude<DiskLevel, 'enough'>) =>
    100 * free < reserve * (BEGINS_BELOW[level] + (isDiskAtLeast(before, level) ? RECOVERY : 0));
  for (const level of ['full', 'exhausted', 'low', 'scarce'] as const) if (isBelow(level)) return level;
  return 'enough';
}
