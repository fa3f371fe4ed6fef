import { statfs } from 'node:fs/promises';
import {
  type DiskLevel,
  type DiskRoom,
  diskLevelOf,
  diskReserveOf,
  fullestDisk,
  isDiskAtLeast,
  type Logger,
  type Metrics,
  messageOf,
  type ReadDiskLevel,
  type ReadDiskRoom,
  repeat,
  UNLIMITED_DISK,
  worstDiskLevel,
} from '@tributary/core';
import type { Config } from '../config/settings.ts';
import { Ballast, type DiskSpace } from '../process/ballast.ts';
import { type EngineConfig, keepsDataHere } from '../process/data-folder.ts';
import { configuredTopics, type KafkaRole, kafkaConnection } from '../wiring/ports/event-log.ts';
import type { Readiness } from './operations.ts';

/** How often the space is read: producers can write some hundred MB in this time, ms. */
const READ_EVERY_MS = 500;
const LOG_EVERY_MS = 60_000;

/** The consequence of each level, for operators. */
const DISK_EFFECT: Readonly<Record<Exclude<DiskLevel, 'enough'>, string>> = {
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

type DiskConfig = Pick<Config, 'dataFolder' | 'diskReserveBytes'> & EngineConfig;

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
  const report = levelReports({
    worse: (fields, effect) =>
      logger.error(
        fields,
        `the disk of the data folder is nearly full: ${effect}; free some space or enlarge the disk`,
      ),
    well: (fields) => logger.info(fields, 'the disk of the data folder has space again'),
  });
  let isReading = false;
  let isClosed = false;
  let restoring: Promise<void> | undefined;

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
    report(before, level, { folder, free, reserve });
    if (restoresBallast && reserve > 0 && level === 'enough' && !isClosed)
      restoring ??= restore(size).finally(() => {
        restoring = undefined;
      });
  };

  /** Changes no level, as missing ballast counts as used. */
  const restore = async (size: number) => {
    try {
      if (ballast.missing(size) === 0) return;
      while (!isClosed && !(await ballast.restoreOne(size)));
    } catch (error) {
      logger.warn({ folder, error: messageOf(error) }, 'the ballast could not be made; trying again');
    }
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
    async close() {
      isClosed = true;
      clearInterval(timer);
      await restoring;
    },
  };
}

interface LevelLog {
  worse(fields: object, effect: string): void;
  well(fields: object): void;
}

/** Logs a level that is not `enough` once a minute, and at each worse one; and when there is space again. */
function levelReports({ worse, well }: LevelLog) {
  let loggedAt = Number.NEGATIVE_INFINITY;
  return (before: DiskLevel, level: DiskLevel, fields: object): void => {
    const now = performance.now();
    if (level === 'enough') {
      if (before !== 'enough') well(fields);
      loggedAt = Number.NEGATIVE_INFINITY;
      return;
    }
    const hasWorsened = level !== before && isDiskAtLeast(level, before);
    if (!hasWorsened && now - loggedAt < LOG_EVERY_MS) return;
    loggedAt = now;
    worse(fields, DISK_EFFECT[level]);
  };
}

async function readSpace(folder: string): Promise<DiskSpace> {
  const { bavail, blocks, bsize } = await statfs(folder);
  return { free: bavail * bsize, size: blocks * bsize };
}

function inMiB(bytes: number): string {
  return `${Math.floor(bytes / 2 ** 20)} MiB`;
}

interface DisksTools extends Pick<DiskWatchTools, 'logger' | 'metrics' | 'restoresBallast'> {
  /** How the disks of Kafka's brokers are read and reported. */
  readonly brokers: Pick<DiskWatchTools, 'logger' | 'metrics'> & { readonly role: KafkaRole };
}

/** Watches every disk that events are kept on: that of the data folder, and those of Kafka's brokers. */
export async function watchDisks(config: Config, { brokers, ...tools }: DisksTools): Promise<DiskWatch> {
  const local = await watchDiskSpace(config, tools);
  if (config.kafkaBrokers.length === 0) return local;
  const { KafkaClient } = await import('../../adapters/event-log/kafka/index.ts');
  const { role, logger, metrics } = brokers;
  // Connections of its own: a broker answers the requests of one connection one after the other.
  const client = new KafkaClient({ connection: kafkaConnection(config, role), logger });
  const topics = [...configuredTopics(config).values()].map(({ name, partitions }) => ({
    topic: `${config.prefix}${name}`,
    partitions,
  }));
  const ours = {
    nodeIds: () => client.nodeIds(),
    logDirectories: (id: number) => client.logDirectories(id, topics),
    close: () => client.close(),
  };
  const watch = watchBrokerDisks(ours, { reserveBytes: config.diskReserveBytes, logger, metrics });
  return {
    ...local,
    level: () => worstDiskLevel(local.level(), watch.level()),
    room: () => fullestDisk(local.room(), watch.room()),
    readiness: (others) => watch.readiness(local.readiness(others)),
    async close() {
      await local.close();
      await watch.close();
    },
  };
}

/** The brokers, as `KafkaClient` has them. */
interface Brokers {
  nodeIds(): Promise<readonly number[]>;
  /** Those with partitions of this installation. A size or free space of -1: the broker does not tell. */
  logDirectories(nodeId: number): Promise<readonly DiskSpace[]>;
  close(): Promise<void>;
}

/** `level`: the worst of any broker, `enough` while no broker tells its free space; `room`: of the fullest one. */
type BrokerDisks = Pick<DiskWatch, 'level' | 'room' | 'readiness' | 'close'>;

interface BrokerDisksTools extends Pick<DiskWatchTools, 'logger' | 'metrics' | 'everyMs'> {
  readonly reserveBytes: number | undefined;
}

interface BrokerDisk extends DiskSpace {
  readonly reserve: number;
  readonly level: DiskLevel;
  /** By `performance.now()`. */
  readonly readAt: number;
}

const BROKERS_READ_EVERY_MS = 10_000;
/** How long the last known space of a broker that does not answer counts, ms. */
const KNOWN_FOR_MS = 60_000;

const GAUGES = {
  free: 'tributary_broker_disk_free_bytes',
  size: 'tributary_broker_disk_size_bytes',
  reserve: 'tributary_broker_disk_reserve_bytes',
} as const;
const FIELDS = ['free', 'size', 'reserve'] as const;

/**
 * Watches the disks of Kafka's brokers that partitions of this installation are on: a broker whose disk is full ends, and all
 * its partitions with it. The brokers tell their free space since Kafka 3.3, to callers with the right DESCRIBE on the cluster,
 * where the file system tells it; without it one warning is logged.
 */
export function watchBrokerDisks(
  brokers: Brokers,
  { reserveBytes, logger, metrics, everyMs = BROKERS_READ_EVERY_MS }: BrokerDisksTools,
): BrokerDisks {
  let disks: ReadonlyMap<number, BrokerDisk> = new Map();
  let level: DiskLevel = 'enough';
  const report = levelReports({
    worse: (fields, effect) =>
      logger.error(
        fields,
        `the disk of a broker is nearly full: ${effect}; free some space there or enlarge the disk`,
      ),
    well: (fields) => logger.info(fields, 'the disks of the brokers have space again'),
  });
  let wasUnknown = false;
  let isClosed = false;

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
      if (!found.has(id))
        for (const field of FIELDS) metrics.removeGauge(GAUGES[field], { broker: String(id) });
    for (const [id, disk] of found)
      for (const field of FIELDS) metrics.gauge(GAUGES[field], disk[field], { broker: String(id) });
    disks = found;
    const before = level;
    level = worstDiskLevel(...[...found.values()].map((disk) => disk.level));
    report(before, level, {
      brokers: [...disks].map(([broker, { free, reserve }]) => ({ broker, free, reserve })),
    });
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
  const reading = repeat(readOnce, everyMs);
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
      const ended = reading.close();
      await brokers.close();
      await ended;
    },
  };
}
