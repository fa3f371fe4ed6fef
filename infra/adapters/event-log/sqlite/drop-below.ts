import type { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { Unavailable } from '@tributary/core';
import { inTransaction, openDatabase, reading, translateSqliteError } from '../../sqlite/database.ts';
import { withDropLock } from './drop-lock.ts';
import {
  listSegments,
  publishNext,
  recordsTable,
  removeRemains,
  removeSegment,
  segmentExists,
  segmentFile,
} from './segment-file.ts';

/** How long readers of other processes may keep the old pages of a file in use, ms. */
const READERS_LEAVE_WITHIN_MS = 10_000;

interface Share {
  readonly first: number;
  readonly next: number;
}

/**
 * Drops the records of a partition below an offset from a family's segments, so that no byte of them is left in the
 * files. The newest segments go first: after a crash between two of them, what is left is the beginning of the partition
 * and what was to be kept, with one hole in between, however often that happens. A segment that holds nothing any more
 * is removed, another is written anew; one that a drop was killed in is, too, whatever it asked for. Works in the
 * calling thread, one drop of a family after another. While an open segment is written anew, nobody can append to it.
 * `Unavailable` while others use the files.
 */
export function dropSegmentsBelow(
  folder: string,
  topic: string,
  partition: number,
  offset: number,
): Promise<void> {
  return withDropLock(folder, async () => {
    for (const sequence of listSegments(folder).toReversed()) {
      const database = openSegment(folder, sequence);
      if (database === undefined) continue;
      let isEmpty = false;
      try {
        if (!dropRows(database, topic, partition, offset)) continue;
        isEmpty = isOver(database);
        if (!isEmpty) await writeAnew(database, segmentFile(folder, sequence));
      } finally {
        database.close();
      }
      if (!isEmpty) continue;
      publishNext(folder, sequence);
      removeSegment(folder, sequence);
    }
    removeRemains(folder);
  });
}

/** Undefined where it was removed since it was listed: it expired. Never makes one, which readers could not read. */
function openSegment(folder: string, sequence: number): DatabaseSync | undefined {
  try {
    return openDatabase(segmentFile(folder, sequence), { create: false });
  } catch (error) {
    if (!segmentExists(folder, sequence)) return undefined;
    throw translateSqliteError(error);
  }
}

/**
 * A segment whose rows were deleted and whose bytes were not says so in the file's own `user_version`: the rows cannot
 * tell, and who comes next may ask for less.
 */
const BYTES_REMAIN = 1;

function bytesRemain(database: DatabaseSync): boolean {
  return database.prepare('PRAGMA user_version').get()?.user_version === BYTES_REMAIN;
}

/** False where all that the segment holds of the partition lies above the offset, and did before. */
function dropRows(database: DatabaseSync, topic: string, partition: number, offset: number): boolean {
  return inTransaction(database, () => {
    const share = shareOf(database, topic, partition);
    if (share === undefined || share.first > offset) return bytesRemain(database);
    database.exec(`PRAGMA user_version = ${BYTES_REMAIN}`);
    database.prepare(`DELETE FROM ${recordsTable(topic, partition)} WHERE offset < ?`).run(offset);
    database
      .prepare('UPDATE heads SET first_offset = ? WHERE topic = ? AND partition = ?')
      .run(Math.min(offset, share.next), topic, partition);
    return true;
  });
}

function shareOf(database: DatabaseSync, topic: string, partition: number): Share | undefined {
  const row = database
    .prepare('SELECT first_offset, next_offset FROM heads WHERE topic = ? AND partition = ?')
    .get(topic, partition);
  return row && { first: Number(row.first_offset), next: Number(row.next_offset) };
}

/** A sealed segment without records: what it says of heads and positions the next one says too. */
function isOver(database: DatabaseSync): boolean {
  return reading(() => {
    const sealed = database.prepare('SELECT sealed_at FROM segment').get()?.sealed_at !== null;
    const held = database.prepare('SELECT 1 FROM heads WHERE next_offset > first_offset').get();
    return sealed && held === undefined;
  });
}

/**
 * Deleted rows leave their bytes in free pages, in unused parts of pages that were split, and in the write-ahead log:
 * the file is built anew of what it holds, and the log emptied.
 */
async function writeAnew(database: DatabaseSync, file: string): Promise<void> {
  reading(() => database.exec('VACUUM'));
  const deadline = performance.now() + READERS_LEAVE_WITHIN_MS;
  for (;;) {
    const busy = reading(() => database.prepare('PRAGMA wal_checkpoint(TRUNCATE)').get()?.busy);
    if (busy === 0) break;
    if (performance.now() > deadline)
      throw new Unavailable(`${file} is read all the time: what was dropped is still in its write-ahead log`);
    await sleep(50);
  }
  reading(() => database.exec('PRAGMA user_version = 0'));
}
