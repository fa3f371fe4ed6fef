import type { History } from '@tributary/core';
import { openSqliteHistory } from '../../../adapters/history/sqlite/index.ts';
import type { Config } from '../../config/settings.ts';
import { embeddedFolders } from '../folders.ts';

/** The history, on SQLite: the processes of an installation share the data folder. */
export async function openHistory(config: Config): Promise<History> {
  return openSqliteHistory({
    folder: embeddedFolders(config).history,
    clock: Date.now,
    retentionMs: config.retention,
  });
}
