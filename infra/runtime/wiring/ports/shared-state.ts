import type { Deduplicator, HealthBoard, Logger, RateLimiter, VolumeCounters } from '@tributary/core';
import { openSqliteDeduplicator } from '../../../adapters/deduplicator/sqlite/index.ts';
import { openSqliteHealthBoard } from '../../../adapters/health-board/sqlite/index.ts';
import { openMemoryRateLimiter } from '../../../adapters/rate-limiter/memory/index.ts';
import { openSqliteVolumeCounters } from '../../../adapters/volume-counters/sqlite/index.ts';
import type { Config } from '../../config/settings.ts';
import { embeddedFolders } from '../folders.ts';

/**
 * The deduplicator: on Redis where it is named, which need not answer yet, else on SQLite. An error that is not
 * retryable where Redis is set up to forget.
 */
export function openDeduplicator(config: Config, logger: Logger): Promise<Deduplicator> {
  const { dedupe } = embeddedFolders(config);
  return open(config, { prefix: config.prefix, folder: dedupe, windowMs: config.dedupeWindow }, logger);
}

/** The same for re-evaluated events alone, which are remembered for as long as the log keeps the rejected ones. */
export function openReevaluations(config: Config, logger: Logger): Promise<Deduplicator> {
  const { reevaluated } = embeddedFolders(config);
  const prefix = `${config.prefix}reevaluated:`;
  return open(config, { prefix, folder: reevaluated, windowMs: config.retention }, logger);
}

interface Store {
  readonly prefix: string;
  readonly folder: string;
  readonly windowMs: number;
}

async function open({ redisUrl }: Config, store: Store, logger: Logger): Promise<Deduplicator> {
  const { prefix, folder, windowMs } = store;
  if (redisUrl !== undefined) {
    const { openRedisDeduplicator } = await import('../../../adapters/deduplicator/redis/index.ts');
    return openRedisDeduplicator({ url: redisUrl, prefix, windowMs, logger });
  }
  return openSqliteDeduplicator({ folder, windowMs, clock: Date.now });
}

export interface VolumeCountersTools {
  readonly logger: Logger;
  /** How long a write of the embedded ones may wait for another process's, ms. */
  readonly busyTimeoutMs?: number;
}

/** The volume counters: on Redis where it is named, which need not answer yet, else on SQLite. */
export async function openVolumeCounters(
  config: Config,
  { logger, busyTimeoutMs }: VolumeCountersTools,
): Promise<VolumeCounters> {
  if (config.redisUrl !== undefined) {
    const { openRedisVolumeCounters } = await import('../../../adapters/volume-counters/redis/index.ts');
    return openRedisVolumeCounters({ url: config.redisUrl, prefix: config.prefix, logger });
  }
  return openSqliteVolumeCounters({
    folder: embeddedFolders(config).volume,
    clock: Date.now,
    ...(busyTimeoutMs === undefined ? {} : { busyTimeoutMs }),
  });
}

/** Where it is told how destinations are doing: on Redis where it is named, which need not answer yet, else on SQLite. */
export async function openHealthBoard(config: Config, logger: Logger): Promise<HealthBoard> {
  if (config.redisUrl === undefined) {
    return openSqliteHealthBoard({ folder: embeddedFolders(config).health, clock: Date.now });
  }
  const { openRedisHealthBoard } = await import('../../../adapters/health-board/redis/index.ts');
  return openRedisHealthBoard({ url: config.redisUrl, prefix: config.prefix, logger });
}

/** The limiter of calls: in Redis where it is named, which need not answer, else in this process; none without a limit. */
export async function openRateLimiter(config: Config, logger: Logger): Promise<RateLimiter | undefined> {
  const { callRate, redisUrl: url, prefix } = config;
  if (callRate === undefined) return undefined;
  const perMinute = callRate * 60;
  if (url === undefined) return openMemoryRateLimiter({ perMinute, clock: () => performance.now() });
  const { openRedisRateLimiter } = await import('../../../adapters/rate-limiter/redis/index.ts');
  return openRedisRateLimiter({ url, prefix, perMinute, logger });
}
