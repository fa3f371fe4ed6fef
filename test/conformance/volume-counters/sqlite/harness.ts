import { openSqliteVolumeCounters } from '@tributary/infra/adapters/volume-counters/sqlite';
import { temporaryFolder } from '../../../helpers/folder.ts';
import type { VolumeCountersHarness } from '../suite/harness.ts';

export const harness: VolumeCountersHarness = {
  name: 'SQLite',
  module: import.meta.url,

  async create() {
    const folder = await temporaryFolder();
    return { settings: folder.path, dispose: () => folder.remove() };
  },

  async open(folder) {
    return openSqliteVolumeCounters({ folder, clock: Date.now });
  },
};
