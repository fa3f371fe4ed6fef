import {
  type Logger,
  type Metrics,
  type ProfileStore,
  type PublishProfileChanges,
  Unavailable,
} from '@tributary/core';
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

/** The profiles of a process that must not touch their store before its owner is checked. */
export interface LateProfiles {
  /** `Unavailable` until it was opened. */
  readonly store: ProfileStore;
  /** Opens the store, once. */
  open(): Promise<void>;
}

export function lateProfiles(openStore: () => Promise<ProfileStore>): LateProfiles {
  let opened: ProfileStore | undefined;
  let opening: Promise<void> | undefined;
  const needed = () => {
    if (opened === undefined) throw new Unavailable('the store of the profiles is not checked yet');
    return opened;
  };
  return {
    store: {
      upsert: async (write) => needed().upsert(write),
      search: async (search) => needed().search(search),
      delete: async (deletion) => needed().delete(deletion),
      unlink: async (unlink) => needed().unlink(unlink),
      split: async (split) => needed().split(split),
      holdsProfiles: async (scope) => needed().holdsProfiles(scope),
      async close() {
        await opening?.catch(() => {}); // reported to the caller of `open`
        await opened?.close();
      },
    },
    open() {
      opening ??= openStore().then((store) => {
        opened = store;
      });
      return opening;
    },
  };
}
