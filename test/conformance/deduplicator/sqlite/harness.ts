import { openSqliteDeduplicator } from '@tributary/infra/adapters/deduplicator/sqlite';
import { temporaryFolder } from '../../../helpers/folder.ts';
import type { DeduplicatorHarness } from '../suite/harness.ts';

export const harness: DeduplicatorHarness = {
  name: 'SQLite',
  module: import.meta.url,

  async create(windowMs) {
    const folder = await temporaryFolder();
    let passed = 0;
    const settings = JSON.stringify({ folder: folder.path, windowMs });
    return {
      settings,
      open: async () =>
        openSqliteDeduplicator({ folder: folder.path, windowMs, clock: () => Date.now() + passed }),
      async elapse(ms) {
        passed += ms;
      },
      dispose: () => folder.remove(),
    };
  },

  async open(settings) {
    const { folder, windowMs } = JSON.parse(settings) as { folder: string; windowMs: number };
    return openSqliteDeduplicator({ folder, windowMs, clock: Date.now });
  },
};
