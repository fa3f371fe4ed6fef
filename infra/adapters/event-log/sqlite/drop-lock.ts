import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { Unavailable } from '@tributary/core';
import { isBusy, translateSqliteError } from '../../sqlite/database.ts';

/** Longer than any file of a segment takes to be written anew. */
const OTHERS_END_WITHIN_MS = 120_000;
const ASK_EVERY_MS = 50;

/**
 * Runs `work` while no other process, and no other call of this one, drops records of the family. The lock is that of
 * an empty database file, which the system takes back from a process that dies. `Unavailable` when it is not to be had
 * in two minutes.
 */
export async function withDropLock<T>(folder: string, work: () => Promise<T>): Promise<T> {
  let lock: DatabaseSync | undefined;
  try {
    lock = new DatabaseSync(join(folder, 'drop.lock'), { timeout: 0 });
    await taken(lock);
    return await work();
  } catch (error) {
    throw translateSqliteError(error);
  } finally {
    lock?.close();
  }
}

async function taken(lock: DatabaseSync): Promise<void> {
  const deadline = performance.now() + OTHERS_END_WITHIN_MS;
  for (;;) {
    try {
      lock.exec('BEGIN IMMEDIATE');
      return;
    } catch (error) {
      if (!isBusy(error)) throw error;
      if (performance.now() > deadline)
        throw new Unavailable('another process drops records of the same files all the time', {
          cause: error,
        });
    }
    // Not SQLite's own wait, which would hold up the thread: the one that has the lock may be of this process.
    await sleep(ASK_EVERY_MS);
  }
}
