import { statfs } from 'node:fs/promises';
import {
  type DiskLevel,
  type DiskRoom,
  diskLevelOf,
  diskReserveOf,
  isDiskAtLeast,
  type Logger,
  type Metrics,
  messageOf,
  type ReadDiskLevel,
  type ReadDiskRoom,
  UNLIMITED_DISK,
} from '@tributary/core';
import type { Config } from '../config/settings.ts';
import { Ballast, type DiskSpace } from '../process/ballast.ts';
import { keepsDataHere } from '../process/usable-folder.ts';
import type { Readiness } from './operations.ts';

/** How often the space is read: producers can write some hundred MB in this time, ms. */
const READ_EVERY_MS = 500;
const LOG_EVERY_MS = 60_000;

/** What happens at each level, for operators. */
export const DISK_EFFECT: Readonly<Record<Exclude<DiskLevel, 'enough'>, string>> = {
  scarce:
    'events of organizations that use more than a fair share of the disk make no deliveries until there is space',
  low: 'events of organizations that use more than a fair share of the disk are refused until there is space',
  exhausted: 'events are answered with 503 until there is space',
  full: 'events are answered with 503 and the stages wait until there is space; reads, removals and sign-in are served',
};

export interface DiskWatch {
  /** The level measured last. */
  readonly level: ReadDiskLevel;
  readonly room: ReadDiskRoom;
  /** Whether nothing is left but the ballast, which is kept for removals. As measured last. */
  isSpent(): boolean;
  /** Gives up ballast if a removal or a sign-in, or from its first half a discard, would find no space. */
  makeRoom(of?: 'all' | 'half'): boolean;
  /** Adds the state of the disk. It keeps no process from being ready: reads and removals are served with a full disk. */
  readiness(others: Readiness): Readiness;
  close(): Promise<void> | void;
}

interface DiskWatchTools {
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Whether ballast is made again while there is space: by one thread of each process. Default true. */
  readonly restoresBallast?: boolean;
  readonly read?: (folder: string) => Promise<DiskSpace>;
  readonly everyMs?: number;
}

type DiskConfig = Pick<
  Config,
  'dataFolder' | 'diskReserveBytes' | 'kafkaBrokers' | 'redisUrl' | 'elasticsearchUrl'
>;

const UNWATCHED: DiskWatch = {
  level: UNLIMITED_DISK,
  room: () => undefined,
  isSpent: () => false,
  makeRoom: () => true,
  readiness: (others) => others,
  close() {},
};

/**
 * Watches the disk of the data folder, if any store is there. The space is reported as metrics. While the reserve is
 * touched, that is logged once a minute; it recovers by itself. Ballast that was given up counts as used.
 */
export async function watchDiskSpace(
  config: DiskConfig,
  { logger, metrics, restoresBallast = true, read = readSpace, everyMs = READ_EVERY_MS }: DiskWatchTools,
): Promise<DiskWatch> {
  if (!keepsDataHere(config)) return UNWATCHED;
  const { dataFolder: folder, diskReserveBytes } = config;
  const ballast = new Ballast(folder);
  let level: DiskLevel = 'enough';
  let room: DiskRoom | undefined;
  let isSpent = false;
  let state = '';
  let loggedAt = Number.NEGATIVE_INFINITY;
  let isReading = false;
  let isRestoring = false;

  const measure = ({ free, size }: DiskSpace) => {
    const reserve = diskReserveOf(diskReserveBytes, size);
    metrics.gauge('tributary_data_folder_free_bytes', free);
    metrics.gauge('tributary_data_folder_size_bytes', size);
    metrics.gauge('tributary_data_folder_reserve_bytes', reserve);
    const left = free - (reserve === 0 ? 0 : ballast.missing(size));
    room = reserve === 0 ? undefined : { free: left, reserve };
    const before = level;
    level = diskLevelOf(left, reserve, before);
    isSpent = level === 'full' && left <= 0;
    state =
      level === 'enough'
        ? `${inMiB(free)} free`
        : `${inMiB(free)} free, and ${inMiB(reserve)} are the reserve: ${DISK_EFFECT[level]}`;
    report(before, { folder, free, reserve });
    if (restoresBallast && reserve > 0 && level === 'enough') void restore(size);
  };

  /** Changes no level, as missing ballast counts as used. */
  const restore = async (size: number) => {
    if (isRestoring || ballast.missing(size) === 0) return;
    isRestoring = true;
    try {
      while (!(await ballast.restoreOne(size)));
    } catch (error) {
      logger.warn({ folder, error: messageOf(error) }, 'the ballast could not be made; trying again');
    } finally {
      isRestoring = false;
    }
  };

  const report = (before: DiskLevel, fields: object) => {
    const now = performance.now();
    if (level === 'enough') {
      if (before !== 'enough') logger.info(fields, 'the disk of the data folder has space again');
      loggedAt = Number.NEGATIVE_INFINITY;
      return;
    }
    // Once a minute, and at each worse level.
    const hasWorsened = level !== before && isDiskAtLeast(level, before);
    if (!hasWorsened && now - loggedAt < LOG_EVERY_MS) return;
    loggedAt = now;
    logger.error(
      fields,
      `the disk of the data folder is nearly full: ${DISK_EFFECT[level]}; free some space or enlarge the disk`,
    );
  };

  const readOnce = async () => {
    if (isReading) return; // a network file system may hang
    isReading = true;
    try {
      measure(await read(folder));
    } catch (error) {
      logger.warn({ folder, error: messageOf(error) }, 'the free space of the data folder cannot be read');
    } finally {
      isReading = false;
    }
  };
  await readOnce();
  const timer = setInterval(() => void readOnce(), everyMs).unref();
  return {
    level: () => level,
    room: () => room,
    isSpent: () => isSpent,
    makeRoom(of) {
      try {
        return ballast.makeRoom(of);
      } catch (error) {
        logger.warn({ folder, error: messageOf(error) }, 'the ballast could not be given up');
        return false;
      }
    },
    readiness: ({ ready, checks }) => ({ ready, checks: { ...checks, disk: state } }),
    close: () => clearInterval(timer),
  };
}

async function readSpace(folder: string): Promise<DiskSpace> {
  const { bavail, blocks, bsize } = await statfs(folder);
  return { free: bavail * bsize, size: blocks * bsize };
}

function inMiB(bytes: number): string {
  return `${Math.floor(bytes / 2 ** 20)} MiB`;
}
