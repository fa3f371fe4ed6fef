import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { NO_LOGGER, NO_METRICS } from '@tributary/core';
import { openSqliteProfileStore } from '@tributary/infra';
import { openBareRows } from './bare-rows.ts';
import { profileRows, sampleProfile } from './profile-rows.ts';
import type { BenchRow } from './table.ts';

/** All changes count as published after this long without any, ms. */
const QUIET_MS = 1_000;

export interface SqliteProfileRowsOptions {
  readonly stored: number;
  readonly rounds: number;
  readonly seconds: number;
}

/** The rows of profiles on SQLite, against reads and writes of one row through the same group commit. */
export async function sqliteProfileRows(options: SqliteProfileRowsOptions): Promise<readonly BenchRow[]> {
  let publishedAt = 0;
  const folder = await mkdtemp(join(tmpdir(), 'tributary-bench-'));
  const store = await openSqliteProfileStore({
    folder,
    clock: Date.now,
    retentionMs: 3_600_000,
    publish: async () => {
      publishedAt = performance.now();
    },
    logger: NO_LOGGER,
    metrics: NO_METRICS,
  });
  const bare = openBareRows(join(folder, 'bare.db'), await sampleProfile(store), options.stored);
  try {
    const settled = async () => {
      while (performance.now() - publishedAt < QUIET_MS) await sleep(QUIET_MS / 10);
    };
    return await profileRows({ ...options, engine: 'on SQLite', store, bare, settled });
  } finally {
    await store.close();
    await bare.close();
    await rm(folder, { recursive: true, force: true });
  }
}
