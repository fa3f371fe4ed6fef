import { openSqliteCounters } from '@tributary/infra/adapters/counters/sqlite';
import { temporaryFolder } from '../../../helpers/folder.ts';
import type { CountersHarness } from '../suite/harness.ts';

export const harness: CountersHarness = {
  name: 'SQLite',
  module: import.meta.url,

  async create() {
    const folder = await temporaryFolder();
    return { settings: folder.path, dispose: () => folder.remove() };
  },

  async open(folder, clock = Date.now) {
    return openSqliteCounters({ folder, clock });
  },
};
