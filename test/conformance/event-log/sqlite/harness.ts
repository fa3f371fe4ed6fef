import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { NO_LOGGER, NO_METRICS } from '@tributary/core';
import { openSqliteEventLog } from '@tributary/infra/adapters/event-log/sqlite';
import { type EventLogHarness, type Medium, TOPICS } from '../suite/harness.ts';

function folderOf(medium: Medium): string {
  const { folder } = medium;
  if (!folder) throw new Error('no folder');
  return folder;
}

export const harness: EventLogHarness = {
  module: import.meta.url,

  async create() {
    const medium = { folder: mkdtempSync(join(tmpdir(), 'tributary-log-')) };
    const log = await harness.open(medium);
    await log.createTopics();
    await log.close();
    return medium;
  },

  /** Small segments, so that the suite crosses many of them. */
  open: (medium, overrides = {}) =>
    openSqliteEventLog({
      folder: folderOf(medium),
      topics: TOPICS,
      metrics: NO_METRICS,
      logger: NO_LOGGER,
      segmentBytes: 500_000,
      // Short for the outages, and long enough for the commits of other processes on a busy disk.
      busyTimeoutMs: 2_000,
      backoff: { firstMs: 5, capMs: 100 },
      ...overrides,
    }),

  /** Takes the write lock of the newest file of every topic group. */
  async outage(medium) {
    const databases = ['received', 'catalog', 'stages'].map((group) => {
      const folder = join(folderOf(medium), group);
      const newest = readdirSync(folder)
        .filter((name) => name.endsWith('.db'))
        .sort()
        .at(-1);
      const database = new DatabaseSync(join(folder, newest ?? ''), { timeout: 5_000 });
      database.exec('BEGIN IMMEDIATE');
      return database;
    });
    return async () => {
      for (const database of databases) database.close();
    };
  },

  async destroy(medium) {
    rmSync(folderOf(medium), { recursive: true });
  },
};
