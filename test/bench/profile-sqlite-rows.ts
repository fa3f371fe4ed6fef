import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { NO_LOGGER, NO_METRICS } from '@tributary/core';
import { openSqliteProfileStore } from '@tributary/infra';
import { openBareRows } from './bare-rows.ts';
import { profileRows, sampleProfile } from './profile-rows.ts';
import type { BenchRow } from './table.ts';

export interface SqliteProfileRowsOptions {
  readonly stored: number;
  readonly rounds: number;
  readonly seconds: number;
}

/** The rows of profiles on SQLite: against reads and writes of one row through the same group commit. */
export async function sqliteProfileRows(options: SqliteProfileRowsOptions): Promise<readonly BenchRow[]> {
  const folder = await mkdtemp(join(tmpdir(), 'tributary-bench-'));
  const store = await openSqliteProfileStore({
    folder,
    clock: Date.now,
    retentionMs: 3_600_000,
    publish: async () => {},
    logger: NO_LOGGER,
    metrics: NO_METRICS,
  });
  const bare = openBareRows(join(folder, 'bare.db'), await sampleProfile(store), options.stored);
  try {
    return await profileRows({ ...options, engine: 'on SQLite', store, bare });
  } finally {
    await store.close();
    await bare.close();
    await rm(folder, { recursive: true, force: true });
  }
}
