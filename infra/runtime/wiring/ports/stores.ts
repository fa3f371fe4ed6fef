import {
  type History,
  type Logger,
  type Metrics,
  type ProfileBounds,
  type ProfileStore,
  type PublishProfileChanges,
  type StoreMark,
  Unavailable,
} from '@tributary/core';
import type { ElasticsearchAccess } from '../../../adapters/elasticsearch/index.ts';
import { openSqliteHistory } from '../../../adapters/history/sqlite/index.ts';
import { folderHoldsProfiles, openSqliteProfileStore } from '../../../adapters/profile-store/sqlite/index.ts';
import { openFileStoreMark } from '../../../adapters/store-mark/file/index.ts';
import type { Config } from '../../config/settings.ts';
import { embeddedFolders } from '../../process/data-folder.ts';
import { redisAccess } from './shared-state.ts';

export interface ProfileStoreTools {
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Appends changes to the log. */
  readonly publish: PublishProfileChanges;
}

/** The profiles: on Elasticsearch if it is configured (it need not answer yet), else on SQLite. */
export async function openProfileStore(
  config: Config,
  { logger, metrics, publish }: ProfileStoreTools,
): Promise<ProfileStore> {
  const access = elasticsearchAccess(config);
  const [clock, retentionMs] = [Date.now, config.retentionMs];
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

export function profileBoundsOf({ profileValues, profileBytes }: Config): ProfileBounds {
  return { values: profileValues, bytes: profileBytes };
}

/** The profiles of a process that must not use the store before its installation is checked. */
export interface LateProfiles {
  /** `Unavailable` until it is open. */
  readonly store: ProfileStore;
  /** Opens the store; later calls have no effect. */
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

/** The history: on Elasticsearch if it is configured (it need not answer yet), else on SQLite. */
export async function openHistory(config: Config, logger: Logger): Promise<History> {
  const access = elasticsearchAccess(config);
  const [clock, retentionMs] = [Date.now, config.historyRetentionMs ?? config.retentionMs];
  if (access !== undefined) {
    const { openElasticsearchHistory } = await import('../../../adapters/history/elasticsearch/index.ts');
    return openElasticsearchHistory({ access, prefix: config.prefix, clock, retentionMs, logger });
  }
  return openSqliteHistory({ folder: embeddedFolders(config).history, clock, retentionMs });
}

/** The access to Elasticsearch; undefined if it is not configured. */
export function elasticsearchAccess(config: Config): ElasticsearchAccess | undefined {
  const { elasticsearchUrl: urls, elasticsearchApiKey: apiKey, elasticsearchTlsCa: ca } = config;
  const { elasticsearchUsername: username, elasticsearchPassword: password } = config;
  const { elasticsearchServiceToken: bearer } = config;
  if (urls === undefined) return undefined;
  return {
    urls,
    ...(apiKey === undefined ? {} : { credentials: { apiKey } }),
    ...(bearer === undefined ? {} : { credentials: { bearer } }),
    ...(username === undefined || password === undefined ? {} : { credentials: { username, password } }),
    ...(ca === undefined ? {} : { ca }),
  };
}

/** The installation marks of all stores beside the log. */
export interface StoreMarks {
  readonly profiles: StoreMark;
  readonly others: readonly StoreMark[];
}

/**
 * Opens the marks; engines need not answer yet. `keep` registers what has to be closed. `onProfilesCreated` is called if
 * the index of the profiles was missing and had to be created.
 */
export async function openStoreMarks(
  config: Config,
  logger: Logger,
  keep: <T extends StoreMark>(opened: T) => T,
  onProfilesCreated: (index: string) => void = () => {},
): Promise<StoreMarks> {
  const { dedupe, volume, funnel, health, history, profiles } = embeddedFolders(config);
  const { prefix, profileShards: shards } = config;
  const redis = redisAccess(config);
  const access = elasticsearchAccess(config);
  const inFolders = (...folders: readonly string[]) => folders.map((folder) => openFileStoreMark(folder));
  const others: StoreMark[] = [];
  if (redis === undefined) others.push(...inFolders(dedupe, volume, funnel, health));
  else {
    const { openRedisStoreMark } = await import('../../../adapters/store-mark/redis/index.ts');
    others.push(keep(await openRedisStoreMark({ ...redis, prefix, logger })));
  }
  if (access === undefined) {
    others.push(...inFolders(history));
    const holdsProfiles = async () => folderHoldsProfiles(profiles);
    return { profiles: { ...openFileStoreMark(profiles), holdsProfiles }, others };
  }
  const [{ openElasticsearchStoreMark }, { ensureIndex }] = await Promise.all([
    import('../../../adapters/store-mark/elasticsearch/index.ts'),
    import('../../../adapters/profile-store/elasticsearch/engine.ts'),
  ]);
  const mark = await openElasticsearchStoreMark({
    access,
    prefix,
    logger,
    async provide(connection, alias) {
      if (await ensureIndex(connection, { alias, shards })) onProfilesCreated(alias);
    },
  });
  return { profiles: keep(mark), others };
}
