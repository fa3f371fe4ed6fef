import { openSqliteHistory } from '@tributary/infra/adapters/history/sqlite';
import { temporaryFolder } from '../../../helpers/folder.ts';
import { type HistoryHarness, RETENTION_MS } from '../suite/harness.ts';

export const harness: HistoryHarness = {
  name: 'SQLite',
  module: import.meta.url,

  async create() {
    const folder = await temporaryFolder();
    return { settings: folder.path, dispose: () => folder.remove() };
  },

  async open(folder) {
    return openSqliteHistory({ folder, clock: Date.now, retentionMs: RETENTION_MS });
  },
};
