import type { Deduplicator, Logger } from '@tributary/core';
import { openSqliteDeduplicator } from '../../../adapters/deduplicator/sqlite/index.ts';
import type { Config } from '../../config/settings.ts';
import { embeddedFolders } from '../folders.ts';

/**
 * The deduplicator: on Redis where it is named, which need not answer yet, else on SQLite. An error that is not
 * retryable where Redis is set up to forget.
 */
export async function openDeduplicator(config: Config, logger: Logger): Promise<Deduplicator> {
  const windowMs = config.dedupeWindow;
  if (config.redisUrl !== undefined) {
    const { openRedisDeduplicator } = await import('../../../adapters/deduplicator/redis/index.ts');
    return openRedisDeduplicator({ url: config.redisUrl, prefix: config.prefix, windowMs, logger });
  }
  return openSqliteDeduplicator({ folder: embeddedFolders(config).dedupe, windowMs, clock: Date.now });
}
