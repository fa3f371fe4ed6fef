import {
  type DiskLevel,
  diskLevelOf,
  diskReserveOf,
  fullestDisk,
  isDiskAtLeast,
  type Logger,
  type Metrics,
  messageOf,
  type ReadDiskLevel,
  type ReadDiskRoom,
  worstDiskLevel,
} from '@tributary/core';
import type { DiskSpace } from '../process/ballast.ts';
import { DISK_EFFECT } from './disk-space.ts';
import type { Readiness } from './operations.ts';

/** The brokers, as `KafkaClient` has them. */
export interface Brokers {
  nodeIds(): Promise<readonly number[]>;
  /** Those with partitions of this installation. A size or free space of -1: the broker does not tell. */
  logDirectories(nodeId: number): Promise<readonly DiskSpace[]>;
  close(): Promise<void>;
}

export interface BrokerDisks {
  /** The worst level of any broker. `enough` while no broker tells its free space. */
  readonly level: ReadDiskLevel;
  /** The space of the fullest one. */
  readonly room: ReadDiskRoom;
  readiness(others: Readiness): Readiness;
  close(): Promise<void>;
}

interface BrokerDisksTools {
  readonly reserveBytes: number | undefined;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly everyMs?: number;
}

interface BrokerDisk extends DiskSpace {
  readonly reserve: number;
  readonly level: DiskLevel;
  /** By `performance.now()`. */
  readonly readAt: number;
}

const READ_EVERY_MS = 10_000;
/** How long the last known space of a broker that does not answer counts, ms. */
const KNOWN_FOR_MS = 60_000;
const LOG_EVERY_MS = 60_000;

const GAUGES = [
  'tributary_broker_disk_free_bytes',
  'tributary_broker_disk_size_bytes',
  'tributary_broker_disk_reserve_bytes',
] as const;

/**
 * Watches the disks of Kafka's brokers that partitions of this installation are on: a broker whose disk is full ends, and all
 * its partitions with it. The brokers tell their free space since Kafka 3.3, to callers with the right DESCRIBE on the cluster,
 * where the file system tells it; without it one warning is logged.
 */
export function watchBrokerDisks(
  brokers: Brokers,
  { reserveBytes, logger, metrics, everyMs = READ_EVERY_MS }: BrokerDisksTools,
): BrokerDisks {
  let disks: ReadonlyMap<number, BrokerDisk> = new Map();
  let level: DiskLevel = 'enough';
  let loggedAt = Number.NEGATIVE_INFINITY;
  let wasUnknown = false;
  let isClosed = false;
  let reading: Promise<void> | undefined;

  /** The disk of a broker with the least free space in relation to its reserve. */
  const fullest = (spaces: readonly DiskSpace[], before: DiskLevel): BrokerDisk | undefined => {
    const [worst] = spaces
      .map((space) => ({ ...space, reserve: diskReserveOf(reserveBytes, space.size) }))
      .toSorted((a, b) => a.free * b.reserve - b.free * a.reserve);
    return (
      worst && {
        ...worst,
        level: diskLevelOf(worst.free, worst.reserve, before),
        readAt: performance.now(),
      }
    );
  };

  /** The disks of all brokers, and why some are unknown. */
  const read = async () => {
    const faults: string[] = [];
    const found = new Map<number, BrokerDisk>();
    const now = performance.now();
    const known = [...disks].filter(([, { readAt }]) => now - readAt < KNOWN_FOR_MS);
    try {
      for (const id of await brokers.nodeIds()) {
        try {
          const directories = await brokers.logDirectories(id);
          const told = directories.filter(({ size, free }) => size >= 0 && free >= 0);
          if (told.length < directories.length)
            faults.push(`broker ${id}: it does not tell the size of a directory`);
          const disk = fullest(told, disks.get(id)?.level ?? 'enough');
          if (disk !== undefined) found.set(id, disk);
        } catch (error) {
          faults.push(`broker ${id}: ${messageOf(error)}`);
          for (const [other, disk] of known) if (other === id) found.set(id, disk);
        }
      }
    } catch (error) {
      return { found: new Map(known), faults: [messageOf(error)] };
    }
    return { found, faults };
  };

  const note = (found: ReadonlyMap<number, BrokerDisk>) => {
    for (const id of disks.keys())
      if (!found.has(id)) for (const name of GAUGES) metrics.removeGauge(name, { broker: String(id) });
    for (const [id, { free, size, reserve }] of found) {
      const broker = String(id);
      metrics.gauge('tributary_broker_disk_free_bytes', free, { broker });
      metrics.gauge('tributary_broker_disk_size_bytes', size, { broker });
      metrics.gauge('tributary_broker_disk_reserve_bytes', reserve, { broker });
    }
    disks = found;
    const before = level;
    level = worstDiskLevel(...[...found.values()].map((disk) => disk.level));
    report(before);
  };

  const report = (before: DiskLevel) => {
    const now = performance.now();
    if (level === 'enough') {
      if (before !== 'enough') logger.info({}, 'the disks of the brokers have space again');
      loggedAt = Number.NEGATIVE_INFINITY;
      return;
    }
    const hasWorsened = level !== before && isDiskAtLeast(level, before);
    if (!hasWorsened && now - loggedAt < LOG_EVERY_MS) return;
    loggedAt = now;
    logger.error(
      { brokers: [...disks].map(([broker, { free, reserve }]) => ({ broker, free, reserve })) },
      `the disk of a broker is nearly full: ${DISK_EFFECT[level]}; free some space there or enlarge the disk`,
    );
  };

  const readOnce = async () => {
    const { found, faults } = await read();
    note(found);
    if (faults.length > 0 && !wasUnknown && !isClosed)
      logger.warn(
        { error: faults.join('; ') },
        'the free space of brokers is unknown: nothing is refused before such a disk is full',
      );
    wasUnknown = faults.length > 0;
  };
  const readNext = () => {
    reading ??= readOnce().finally(() => {
      reading = undefined;
    });
  };
  readNext();
  const timer = setInterval(readNext, everyMs).unref();
  return {
    level: () => level,
    room: () => fullestDisk(...disks.values()),
    readiness: ({ ready, checks }) => ({
      ready,
      checks:
        level === 'enough' ? checks : { ...checks, 'broker disks': `nearly full: ${DISK_EFFECT[level]}` },
    }),
    async close() {
      isClosed = true;
      clearInterval(timer);
      await brokers.close();
      await reading;
    },
  };
}
