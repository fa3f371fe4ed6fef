import type { Logger, VolumeCounters } from '@tributary/core';
import { openSqliteVolumeCounters } from '../../../adapters/volume-counters/sqlite/index.ts';
import type { Config } from '../../config/settings.ts';
import { embeddedFolders } from '../folders.ts';

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
