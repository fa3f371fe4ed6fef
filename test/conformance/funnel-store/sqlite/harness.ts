import { openSqliteFunnelStore } from '@tributary/infra/adapters/funnel-store/sqlite';
import { temporaryFolder } from '../../../helpers/folder.ts';
import type { FunnelStoreHarness } from '../suite/harness.ts';

export const harness: FunnelStoreHarness = {
  name: 'SQLite',
  module: import.meta.url,

  async create() {
    const folder = await temporaryFolder();
    return { settings: folder.path, dispose: () => folder.remove() };
  },

  async open(folder, clock = Date.now) {
    return openSqliteFunnelStore({ folder, clock });
  },
};
