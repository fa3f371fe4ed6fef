import { declareTopics, NO_LOGGER, NO_METRICS } from '@tributary/core';
import { openLogCatalog } from '@tributary/infra/adapters/catalog/log';
import { openSqliteEventLog } from '@tributary/infra/adapters/event-log/sqlite';
import { temporaryFolder } from '../../../helpers/folder.ts';
import type { CatalogHarness } from '../suite/harness.ts';

const TOPICS = declareTopics({ partitions: 1, retentionMs: 60_000, retrySteps: [], dedicated: [] });

export const harness: CatalogHarness = {
  name: 'log',
  module: import.meta.url,

  async create() {
    const folder = await temporaryFolder();
    return { settings: folder.path, dispose: () => folder.remove() };
  },

  async openLog(folder) {
    const log = await openSqliteEventLog({ folder, topics: TOPICS, logger: NO_LOGGER, metrics: NO_METRICS });
    await log.createTopics();
    return log;
  },

  async open(log, options) {
    return openLogCatalog({ log, fetchWaitMs: 50, ...options });
  },
};
