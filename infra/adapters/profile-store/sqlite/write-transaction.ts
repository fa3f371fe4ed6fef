import type { DatabaseSync } from 'node:sqlite';
import { backoffMs } from '@tributary/core';
import { isBusy, translateSqliteError } from '../../sqlite/database.ts';

const BACKOFF = { firstMs: 0.2, capMs: 4 };

/**
 * Runs `work` in one write transaction; blocks the calling thread while another writes, `Unavailable` after
 * `busyTimeoutMs`. It looks again every few ms, where SQLite's own wait grows to a tenth of a second and seldom meets
 * the moment in which a busy writer is between two transactions.
 */
export function inWriteTransaction<T>(database: DatabaseSync, busyTimeoutMs: number, work: () => T): T {
  begin(database, busyTimeoutMs);
  try {
    const result = work();
    database.exec('COMMIT');
    return result;
  } catch (error) {
    if (database.isTransaction) database.exec('ROLLBACK');
    throw translateSqliteError(error);
  }
}

function begin(database: DatabaseSync, busyTimeoutMs: number): void {
  const deadline = performance.now() + busyTimeoutMs;
  for (let attempt = 0; ; attempt++) {
    try {
      database.exec('BEGIN IMMEDIATE');
      return;
    } catch (error) {
      if (!isBusy(error)) throw translateSqliteError(error);
      if (performance.now() >= deadline) throw translateSqliteError(error, database.location() ?? undefined);
    }
    pause(backoffMs(attempt, BACKOFF) * (0.5 + Math.random()));
  }
}

const nobodyWakes = new Int32Array(new SharedArrayBuffer(4));

function pause(ms: number): void {
  Atomics.wait(nobodyWakes, 0, 0, ms);
}
