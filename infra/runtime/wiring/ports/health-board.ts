import type { HealthBoard, Logger } from '@tributary/core';
import { openSqliteHealthBoard } from '../../../adapters/health-board/sqlite/index.ts';
import type { Config } from '../../config/settings.ts';
import { embeddedFolders } from '../folders.ts';

/** Where it is told how destinations are doing: on Redis where it is named, which need not answer yet, else on SQLite. */
export async function openHealthBoard(config: Config, logger: Logger): Promise<HealthBoard> {
  if (config.redisUrl === undefined) {
    return openSqliteHealthBoard({ folder: embeddedFolders(config).health, clock: Date.now });
  }
  const { openRedisHealthBoard } = await import('../../../adapters/health-board/redis/index.ts');
  return openRedisHealthBoard({ url: config.redisUrl, prefix: config.prefix, logger });
}
