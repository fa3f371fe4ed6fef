import type { Deduplicator, Logger } from '@tributary/core';
import { openSqliteDeduplicator } from '../../../adapters/deduplicator/sqlite/index.ts';
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
