import type { Logger, StoreMark } from '@tributary/core';
import { folderHoldsProfiles } from '../../../adapters/profile-store/sqlite/index.ts';
import { openFileStoreMark } from '../../../adapters/store-mark/file/index.ts';
import type { Config } from '../../config/settings.ts';
import { embeddedFolders } from '../folders.ts';
import { elasticsearchAccess } from './history.ts';

/** The marks of every store beside the log; `profiles` is that of the store which holds the profiles. */
export interface StoreMarks {
  readonly profiles: StoreMark;
  readonly others: readonly StoreMark[];
}

/** An engine need not answer yet. What was opened is for `keep` to close. `madeProfiles` runs where the index of the profiles was missing. */
export async function openStoreMarks(
  config: Config,
  logger: Logger,
  keep: <T extends StoreMark>(opened: T) => T,
  madeProfiles: (index: string) => void = () => {},
): Promise<StoreMarks> {
  const { dedupe, volume, health, history, profiles } = embeddedFolders(config);
  const { prefix, redisUrl: url, profileShards: shards } = config;
  const access = elasticsearchAccess(config);
  const inFolders = (...folders: readonly string[]) => folders.map((folder) => openFileStoreMark(folder));
  const others: StoreMark[] = [];
  if (url === undefined) others.push(...inFolders(dedupe, volume, health));
  else {
    const { openRedisStoreMark } = await import('../../../adapters/store-mark/redis/index.ts');
    others.push(keep(await openRedisStoreMark({ url, prefix, logger })));
  }
  if (access === undefined) {
    others.push(...inFolders(history));
    const holdsProfiles = async () => folderHoldsProfiles(profiles);
    return { profiles: { ...openFileStoreMark(profiles), holdsProfiles }, others };
  }
  const [{ openElasticsearchStoreMark }, { ensureIndex }] = await Promise.all([
    import('../../../adapters/store-mark/elasticsearch/index.ts'),
    import('../../../adapters/profile-store/elasticsearch/engine/profile-index.ts'),
  ]);
  const mark = await openElasticsearchStoreMark({
    access,
    prefix,
    logger,
    async provide(connection, alias) {
      if (await ensureIndex(connection, { alias, shards })) madeProfiles(alias);
    },
  });
  return { profiles: keep(mark), others };
}
