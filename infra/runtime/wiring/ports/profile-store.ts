import type { Logger, Metrics, ProfileStore, PublishProfileChanges } from '@tributary/core';
import { openSqliteProfileStore } from '../../../adapters/profile-store/sqlite/index.ts';
import type { Config } from '../../config/settings.ts';
import { embeddedFolders } from '../folders.ts';
import { elasticsearchAccess } from './history.ts';

export interface ProfileStoreTools {
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Puts changes on the log. */
  readonly publish: PublishProfileChanges;
}

/** The profiles: on Elasticsearch where it is named, which need not answer yet, else on SQLite in the data folder. */
export async function openProfileStore(
  config: Config,
  { logger, metrics, publish }: ProfileStoreTools,
): Promise<ProfileStore> {
  const access = elasticsearchAccess(config);
  const [clock, retentionMs] = [Date.now, config.retention];
  if (access !== undefined) {
    const { openElasticsearchProfileStore } = await import(
      '../../../adapters/profile-store/elasticsearch/index.ts'
    );
    const { prefix, profileShards: shards } = config;
    return openElasticsearchProfileStore({ access, prefix, shards, clock, retentionMs, publish, logger });
  }
  return openSqliteProfileStore({
    folder: embeddedFolders(config).profiles,
    clock,
    retentionMs,
    publish,
    logger,
    metrics,
  });
}
