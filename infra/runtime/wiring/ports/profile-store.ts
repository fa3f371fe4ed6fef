import type { Logger, Metrics, ProfileStore, PublishProfileChanges } from '@tributary/core';
import { openSqliteProfileStore } from '../../../adapters/profile-store/sqlite/index.ts';
import type { Config } from '../../config/settings.ts';
import { embeddedFolders } from '../folders.ts';

export interface ProfileStoreTools {
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Puts changes on the log; of all who have the profiles open one at a time does it for all. */
  readonly publish: PublishProfileChanges;
}

/** The profiles: on SQLite in the data folder. */
export async function openProfileStore(
  config: Config,
  { logger, metrics, publish }: ProfileStoreTools,
): Promise<ProfileStore> {
  return openSqliteProfileStore({
    folder: embeddedFolders(config).profiles,
    clock: Date.now,
    retentionMs: config.retention,
    publish,
    logger,
    metrics,
  });
}
