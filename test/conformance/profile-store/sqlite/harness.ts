import { NO_LOGGER, NO_METRICS } from '@tributary/core';
import { openSqliteProfileStore } from '@tributary/infra/adapters/profile-store/sqlite';
import { temporaryFolder } from '../../../helpers/folder.ts';
import type { ProfileStoreHarness } from '../suite/harness.ts';

export const harness: ProfileStoreHarness = {
  name: 'SQLite',
  module: import.meta.url,
  publishesForOthers: true,

  async create(retentionMs) {
    const folder = await temporaryFolder();
    const settings = JSON.stringify({ folder: folder.path, retentionMs });
    return { settings, dispose: () => folder.remove() };
  },

  async open(settings, { publish, clock = Date.now, tidyEveryMs }) {
    const { folder, retentionMs } = JSON.parse(settings) as { folder: string; retentionMs: number };
    return openSqliteProfileStore({
      folder,
      retentionMs,
      clock,
      publish,
      logger: NO_LOGGER,
      metrics: NO_METRICS,
      ...(tidyEveryMs === undefined ? {} : { forgetEveryMs: tidyEveryMs }),
    });
  },
};
