import type { MessagePort } from 'node:worker_threads';
import {
  type Deduplicator,
  type FunnelStore,
  type HealthBoard,
  type LiveTail,
  type Logger,
  type ProcessBoard,
  type RateLimiter,
  Unavailable,
  type VolumeCounters,
} from '@tributary/core';
import { openSqliteDeduplicator } from '../../../adapters/deduplicator/sqlite/index.ts';
import { openSqliteFunnelStore } from '../../../adapters/funnel-store/sqlite/index.ts';
import { openSqliteHealthBoard } from '../../../adapters/health-board/sqlite/index.ts';
import { openInProcessLiveTail, openLinkedLiveTail } from '../../../adapters/live-tail/in-process/index.ts';
import { openSqliteProcessBoard } from '../../../adapters/process-board/sqlite/index.ts';
import { openMemoryRateLimiter } from '../../../adapters/rate-limiter/memory/index.ts';
import type { RedisAccess } from '../../../adapters/redis/index.ts';
import { openSqliteVolumeCounters } from '../../../adapters/volume-counters/sqlite/index.ts';
import type { Config } from '../../config/settings.ts';
import { embeddedFolders } from '../../process/data-folder.ts';

/** The access to Redis; undefined if it is not configured. */
export function redisAccess(config: Config): RedisAccess | undefined {
  const { redisUrl: url, redisTlsCa: ca, redisSentinelPrimary: primary } = config;
  const { redisSentinelUsername: username, redisSentinelPassword: password } = config;
  if (url === undefined) return undefined;
  const sentinel = {
    ...(username === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password }),
  };
  return {
    url,
    ...(ca === undefined ? {} : { ca }),
    ...(primary === undefined ? {} : { sentinel: { primary, ...sentinel } }),
  };
}

/**
 * The deduplicator: on Redis if it is configured (it need not answer yet), else on SQLite. Fails with an error that is not
 * retryable if Redis may evict keys.
 */
export function openDeduplicator(config: Config, logger: Logger): Promise<Deduplicator> {
  const { dedupe } = embeddedFolders(config);
  return open(config, { prefix: config.prefix, folder: dedupe, windowMs: config.dedupeWindowMs }, logger);
}

/** A deduplicator for re-evaluated events, with the retention of the log as its window. */
export function openReevaluations(config: Config, logger: Logger): Promise<Deduplicator> {
  const { reevaluated } = embeddedFolders(config);
  const prefix = `${config.prefix}reevaluated:`;
  return open(config, { prefix, folder: reevaluated, windowMs: config.retentionMs }, logger);
}

interface Store {
  readonly prefix: string;
  readonly folder: string;
  readonly windowMs: number;
}

async function open(config: Config, store: Store, logger: Logger): Promise<Deduplicator> {
  const { prefix, folder, windowMs } = store;
  const redis = redisAccess(config);
  if (redis !== undefined) {
    const { openRedisDeduplicator } = await import('../../../adapters/deduplicator/redis/index.ts');
    return openRedisDeduplicator({ ...redis, prefix, windowMs, logger });
  }
  return openSqliteDeduplicator({ folder, windowMs, clock: Date.now });
}

export interface CountingTools {
  readonly logger: Logger;
  /** How long a write of the embedded store may wait for other processes, ms. */
  readonly busyTimeoutMs?: number;
}

/** The volume counters: on Redis if it is configured (it need not answer yet), else on SQLite. */
export async function openVolumeCounters(
  config: Config,
  { logger, busyTimeoutMs }: CountingTools,
): Promise<VolumeCounters> {
  const redis = redisAccess(config);
  if (redis !== undefined) {
    const { openRedisVolumeCounters } = await import('../../../adapters/volume-counters/redis/index.ts');
    return openRedisVolumeCounters({ ...redis, prefix: config.prefix, logger });
  }
  return openSqliteVolumeCounters({
    folder: embeddedFolders(config).volume,
    clock: Date.now,
    ...(busyTimeoutMs === undefined ? {} : { busyTimeoutMs }),
  });
}

/** The counts of the funnel: on Redis if it is configured (it need not answer yet), else on SQLite. */
export async function openFunnelStore(
  config: Config,
  { logger, busyTimeoutMs }: CountingTools,
): Promise<FunnelStore> {
  const redis = redisAccess(config);
  const clock = Date.now;
  if (redis !== undefined) {
    const { openRedisFunnelStore } = await import('../../../adapters/funnel-store/redis/index.ts');
    return openRedisFunnelStore({ ...redis, prefix: config.prefix, clock, logger });
  }
  return openSqliteFunnelStore({
    folder: embeddedFolders(config).funnel,
    clock,
    ...(busyTimeoutMs === undefined ? {} : { busyTimeoutMs }),
  });
}

/** The health reports of destinations: on Redis if it is configured (it need not answer yet), else on SQLite. */
export async function openHealthBoard(config: Config, logger: Logger): Promise<HealthBoard> {
  const redis = redisAccess(config);
  if (redis === undefined) {
    return openSqliteHealthBoard({ folder: embeddedFolders(config).health, clock: Date.now });
  }
  const { openRedisHealthBoard } = await import('../../../adapters/health-board/redis/index.ts');
  return openRedisHealthBoard({ ...redis, prefix: config.prefix, logger });
}

/** The reports of processes: on Redis if it is configured (it need not answer yet), else on SQLite. */
export async function openProcessBoard(config: Config, logger: Logger): Promise<ProcessBoard> {
  const redis = redisAccess(config);
  if (redis === undefined)
    return openSqliteProcessBoard({ folder: embeddedFolders(config).health, clock: Date.now });
  const { openRedisProcessBoard } = await import('../../../adapters/process-board/redis/index.ts');
  return openRedisProcessBoard({ ...redis, prefix: config.prefix, logger });
}

/** Calls a second of a credential without a setting: a person or a script at work makes a few. */
const DEFAULT_CALL_RATE = 100;

/**
 * The rate limiter of calls: on Redis if it is configured (it need not answer), else in memory. In memory also for the default
 * rate, so that without a setting no call waits for Redis.
 */
export async function openRateLimiter(config: Config, logger: Logger): Promise<RateLimiter> {
  const { callRate, prefix } = config;
  const redis = redisAccess(config);
  const perMinute = (callRate ?? DEFAULT_CALL_RATE) * 60;
  if (redis === undefined || callRate === undefined)
    return openMemoryRateLimiter({ perMinute, clock: () => performance.now() });
  const { openRedisRateLimiter } = await import('../../../adapters/rate-limiter/redis/index.ts');
  return openRedisRateLimiter({ ...redis, prefix, perMinute, logger });
}

export interface LiveTailTools {
  readonly logger: Logger;
  /** Port to the thread of the other side, if gateway and stages are in one process. */
  readonly link?: MessagePort | undefined;
}

/**
 * The live tail of a gateway: on Redis if it is configured (it need not answer yet), else that of the stages' thread of
 * this process. There is none if the stages are in other processes and Redis is not configured.
 */
export async function openGatewayLiveTail(
  config: Config,
  { logger, link }: LiveTailTools,
): Promise<LiveTail> {
  const redis = redisAccess(config);
  if (redis !== undefined) return openOnRedis(config, redis, logger);
  if (link !== undefined) {
    if (config.kafkaBrokers.length > 0)
      logger.warn(
        {},
        'no Redis is used (REDIS_URL is none or not set): the live stream lacks the events that other processes work on',
      );
    return openLinkedLiveTail({ port: link, logger });
  }
  if (config.kafkaBrokers.length === 0) return openInProcessLiveTail({ logger });
  logger.warn({}, 'no Redis is used (REDIS_URL is none or not set): there is no live stream of events');
  return NO_LIVE_TAIL;
}

/** The live tail of the stages, the other side of `openGatewayLiveTail`. */
export async function openStagesLiveTail(config: Config, { logger, link }: LiveTailTools): Promise<LiveTail> {
  const redis = redisAccess(config);
  if (redis !== undefined) return openOnRedis(config, redis, logger);
  return link === undefined ? NO_LIVE_TAIL : openInProcessLiveTail({ logger, links: [link] });
}

async function openOnRedis(config: Config, redis: RedisAccess, logger: Logger): Promise<LiveTail> {
  const { openRedisLiveTail } = await import('../../../adapters/live-tail/redis/index.ts');
  return openRedisLiveTail({ ...redis, prefix: config.prefix, logger });
}

/** Discards events, and refuses to follow them. */
const NO_LIVE_TAIL: LiveTail = {
  append: async () => 0,
  async follow() {
    throw new Unavailable('there is no live tail without REDIS_URL');
  },
  async close() {},
};
