import { statfs } from 'node:fs/promises';
import { type Logger, type Metrics, messageOf } from '@tributary/core';
import type { Config } from '../config/settings.ts';
import { keepsDataHere } from '../process/usable-folder.ts';
import type { Readiness } from './operations.ts';

/** The space of a disk, bytes. */
export interface DiskSpace {
  /** Free space that the user of this process may use. */
  readonly free: number;
  readonly size: number;
}

/** `low`: not ready any more. `exhausted`: refuses events too, so that the stages can finish what was taken. */
export type SpaceLevel = 'enough' | 'low' | 'exhausted';

/** The largest default reserve, and its part of a smaller disk. */
const DEFAULT_RESERVE = { bytes: 2 ** 30, part: 0.05 } as const;
/** Free space beyond a threshold that ends the state below it, as a part of the reserve: states must not alternate. */
const RECOVERY = 0.1;

/** The free space below which a process is not ready. */
export function reserveOf(configured: number | undefined, size: number): number {
  return configured ?? Math.min(DEFAULT_RESERVE.bytes, Math.floor(size * DEFAULT_RESERVE.part));
}

/** The level at this free space, after the level `before`. */
export function levelOf(free: number, reserve: number, before: SpaceLevel): SpaceLevel {
  const margin = reserve * RECOVERY;
  if (free < reserve / 2 + (before === 'exhausted' ? margin : 0)) return 'exhausted';
  if (free < reserve + (before === 'enough' ? 0 : margin)) return 'low';
  return 'enough';
}

/** How often the space is read: producers can write some hundred MB in this time, ms. */
const READ_EVERY_MS = 500;
const LOG_EVERY_MS = 60_000;

export interface DiskWatch {
  /** Whether new events and profiles are to be refused. */
  readonly isExhausted: boolean;
  /** Not ready while the space is low. */
  readiness(others: Readiness): Readiness;
  close(): void;
}

interface DiskWatchTools {
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly read?: (folder: string) => Promise<DiskSpace>;
  readonly everyMs?: number;
}

type DiskConfig = Pick<
  Config,
  'dataFolder' | 'diskReserveBytes' | 'kafkaBrokers' | 'redisUrl' | 'elasticsearchUrl'
>;

const UNWATCHED: DiskWatch = { isExhausted: false, readiness: (others) => others, close() {} };

/**
 * Watches the disk of the data folder, if any store is there. The space is reported as metrics. While it is low, the process
 * is not ready and says so once a minute; it recovers by itself.
 */
export async function watchDiskSpace(
  config: DiskConfig,
  { logger, metrics, read = readSpace, everyMs = READ_EVERY_MS }: DiskWatchTools,
): Promise<DiskWatch> {
  if (!keepsDataHere(config)) return UNWATCHED;
  const { dataFolder: folder } = config;
  let level: SpaceLevel = 'enough';
  let state = '';
  let loggedAt = Number.NEGATIVE_INFINITY;
  let isReading = false;

  const note = ({ free, size }: DiskSpace) => {
    const reserve = reserveOf(config.diskReserveBytes, size);
    metrics.gauge('tributary_data_folder_free_bytes', free);
    metrics.gauge('tributary_data_folder_size_bytes', size);
    metrics.gauge('tributary_data_folder_reserve_bytes', reserve);
    const before = level;
    level = levelOf(free, reserve, before);
    state =
      level === 'enough'
        ? `${inMiB(free)} free`
        : `${inMiB(free)} free, and ${inMiB(reserve)} are the reserve${level === 'exhausted' ? ': events are refused' : ''}`;
    report(before, { folder, free, reserve });
  };

  const report = (before: SpaceLevel, fields: object) => {
    const now = performance.now();
    if (level === 'enough') {
      if (before !== 'enough') logger.info(fields, 'the disk of the data folder has space again');
      loggedAt = Number.NEGATIVE_INFINITY;
      return;
    }
    // Once a minute, and when events begin to be refused.
    const hasWorsened = level === 'exhausted' && before !== 'exhausted';
    if (!hasWorsened && now - loggedAt < LOG_EVERY_MS) return;
    loggedAt = now;
    logger.error(
      fields,
      level === 'low'
        ? 'the disk of the data folder is nearly full: this process is not ready; free space or enlarge the disk'
        : 'the disk of the data folder is nearly full: events are answered with 503 until there is space; free some or enlarge the disk',
    );
  };

  const readOnce = async () => {
    if (isReading) return; // a network file system may hang
    isReading = true;
    try {
      note(await read(folder));
    } catch (error) {
      logger.warn({ folder, error: messageOf(error) }, 'the free space of the data folder cannot be read');
    } finally {
      isReading = false;
    }
  };
  await readOnce();
  const timer = setInterval(() => void readOnce(), everyMs).unref();
  return {
    get isExhausted() {
      return level === 'exhausted';
    },
    readiness: ({ ready, checks }) => ({
      ready: ready && level === 'enough',
      checks: { ...checks, disk: state },
    }),
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
