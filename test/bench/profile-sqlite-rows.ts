import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { NO_LOGGER, NO_METRICS } from '@tributary/core';
import { GroupCommit, openSqliteProfileStore } from '@tributary/infra';
import { type BareDocuments, profileRows, sampleProfile } from './profile-rows.ts';
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

/** The bytes the group commit counts for an update. */
const UPDATE_BYTES = 100;
const CACHE_KIB = 16 * 1024;

export interface BareRows extends BareDocuments {
  close(): Promise<void>;
}

/**
 * The same document in many rows that are found by name. A thread updates them in groups, as for profiles;
 * the calling thread reads them.
 */
export function openBareRows(file: string, document: object, count: number): BareRows {
  fill(file, JSON.stringify(document), count);
  const thread = new Worker(new URL('./bare-rows-thread.ts', import.meta.url), {
    workerData: file,
    execArgv: [],
  });
  const waiting: ((bodies: readonly string[]) => void)[] = [];
  thread.on('message', (bodies: readonly string[]) => waiting.shift()?.(bodies));
  const groups = new GroupCommit<{ readonly name: string }, string>({
    maxInFlight: 2,
    eagerRequests: 32,
    maxUnconfirmedBytes: Number.POSITIVE_INFINITY,
    maxGroupBytes: 4 * 1024 * 1024,
    commit: (updates) =>
      new Promise<readonly string[]>((resolve) => {
        waiting.push(resolve);
        thread.postMessage(JSON.stringify(updates));
      }),
  });
  const reads = new DatabaseSync(file, { readOnly: true });
  reads.exec(`PRAGMA cache_size = -${CACHE_KIB}`);
  const read = reads.prepare('SELECT body FROM rows WHERE name = ?');
  return {
    async update(n) {
      JSON.parse(await groups.add({ name: nameOf(n) }, UPDATE_BYTES));
    },
    async read(n) {
      JSON.parse(String(read.get(nameOf(n))?.body));
    },
    async close() {
      reads.close();
      await thread.terminate();
    },
  };
}

function fill(file: string, body: string, count: number): void {
  const database = new DatabaseSync(file);
  database.exec(`
    PRAGMA journal_mode = WAL;
    CREATE TABLE rows (row INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, body TEXT NOT NULL);
    WITH RECURSIVE all_rows(row) AS (SELECT 0 UNION ALL SELECT row + 1 FROM all_rows WHERE row < ${count - 1})
    INSERT INTO rows SELECT row, 'document-' || row, '${body}' FROM all_rows;
  `);
  database.close();
}

function nameOf(n: number): string {
  return `document-${n}`;
}
