import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { type TopicSpec, Unavailable } from '@tributary/core';
import { inTransaction, isBusy, openDatabase, reading, translateSqliteError } from '../../sqlite/database.ts';
import {
  isEmpty,
  isSealed,
  listSegments,
  publishNext,
  recordsTable,
  removeOrphanedFiles,
  removeSegment,
  type StagePosition,
  segmentExists,
  segmentFile,
  type TopicGroup,
  topicGroupOf,
} from './segment-file.ts';
import { SegmentReader } from './topic-group-reader.ts';

/** Stages of earlier releases. They keep their positions for a rollback, and no records for it. */
export const REMOVED_STAGES: ReadonlySet<string> = new Set(['count']);

/** The properties of a sealed segment that decide whether it may be removed. */
interface SealedSegment {
  readonly sealedAt: number;
  /** By `topic/partition`. */
  readonly heads: ReadonlyMap<string, { readonly first: number; readonly next: number }>;
}

/** True when every record of the segment is past its topic's retention. Topics that are not declared have none. */
export function isExpired(
  segment: SealedSegment,
  topics: ReadonlyMap<string, TopicSpec>,
  now: number,
): boolean {
  for (const spec of topics.values()) {
    for (let partition = 0; partition < spec.partitions; partition++) {
      if (!headWithRecords(segment, spec.name, partition)) continue;
      if (spec.retentionMs === 'forever' || segment.sealedAt + spec.retentionMs > now) return false;
    }
  }
  return true;
}

/** The position of a stage that has not read all of the segment; undefined when every stage has. */
function unreadBy(
  segment: SealedSegment,
  topics: ReadonlyMap<string, TopicSpec>,
  positions: readonly StagePosition[],
): StagePosition | undefined {
  return positions.find(
    ({ stage, topic, partition, offset }) =>
      !REMOVED_STAGES.has(stage) &&
      topics.has(topic) &&
      offset < (headWithRecords(segment, topic, partition)?.next ?? 0),
  );
}

/** Undefined when the segment holds no record of the partition. */
function headWithRecords({ heads }: SealedSegment, topic: string, partition: number) {
  const head = heads.get(`${topic}/${partition}`);
  return head === undefined || head.next === head.first ? undefined : head;
}

interface Dropped {
  readonly segments: number;
  /** The position of the stage for which an expired segment is kept. */
  readonly keptFor: StagePosition | undefined;
}

/**
 * Drops expired segments of a topic group that every stage has read, oldest first and up to the first that must stay, so
 * that no gap opens. Safe in several processes at once.
 */
export function dropExpired(
  folder: string,
  group: TopicGroup,
  topics: ReadonlyMap<string, TopicSpec>,
  positions: readonly StagePosition[],
  now: number,
): Dropped {
  if (group === 'catalog') return { segments: 0, keptFor: undefined };
  removeOrphanedFiles(folder);
  const ofGroup = new Map([...topics].filter(([, spec]) => topicGroupOf(spec) === group));
  let segments = 0;
  for (const sequence of listSegments(folder).slice(0, -1)) {
    const segment = readSealed(folder, sequence);
    if (segment === undefined) continue;
    if (!isExpired(segment, ofGroup, now)) break;
    const keptFor = unreadBy(segment, ofGroup, positions);
    if (keptFor !== undefined) return { segments, keptFor };
    removeSegment(folder, sequence);
    segments++;
  }
  return { segments, keptFor: undefined };
}

/** Undefined when another process has just dropped it. */
function readSealed(folder: string, sequence: number): SealedSegment | undefined {
  try {
    const segment = new SegmentReader(folder, sequence);
    segment.close();
    return { sealedAt: segment.sealedAt ?? Number.POSITIVE_INFINITY, heads: segment.heads };
  } catch (error) {
    if (segmentExists(folder, sequence)) throw error;
    return undefined;
  }
}

/** How long to wait for readers of other processes that use old pages of a file, ms. */
const READERS_TIMEOUT_MS = 10_000;

/**
 * Drops the records of a partition below an offset from all segments, so that no byte of them is left in the files.
 *
 * - The newest segments go first: after crashes between two of them, the beginning of the partition and the records to
 *   be kept are left, with one hole in between.
 * - A segment without records is removed, any other is rewritten; so is one that an earlier drop left half-done.
 * - Works in the calling thread, one drop per topic group at a time. Appends to an open segment wait while it is
 *   rewritten. `Unavailable` while other processes use the files.
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
      let isRemoved = false;
      try {
        if (!dropRows(database, topic, partition, offset)) continue;
        // Its ends and positions are in the next one, too.
        isRemoved = reading(() => isSealed(database) && isEmpty(database));
        if (!isRemoved) await rewrite(database, segmentFile(folder, sequence));
      } finally {
        database.close();
      }
      if (!isRemoved) continue;
      publishNext(folder, sequence);
      removeSegment(folder, sequence);
    }
    removeOrphanedFiles(folder);
  });
}

/** Undefined when retention removed the segment after it was listed. Never creates an empty file in its place. */
function openSegment(folder: string, sequence: number): DatabaseSync | undefined {
  try {
    return openDatabase(segmentFile(folder, sequence), { create: false });
  } catch (error) {
    if (!segmentExists(folder, sequence)) return undefined;
    throw translateSqliteError(error);
  }
}

/**
 * Value of `user_version` in a segment whose rows were deleted and whose file was not rewritten yet. The rows do not show
 * it, and the next drop may ask for a lower offset.
 */
const REWRITE_PENDING = 1;

function isRewritePending(database: DatabaseSync): boolean {
  return database.prepare('PRAGMA user_version').get()?.user_version === REWRITE_PENDING;
}

/** Deletes the rows; returns whether the segment has to be rewritten. */
function dropRows(database: DatabaseSync, topic: string, partition: number, offset: number): boolean {
  return inTransaction(database, () => {
    const head = database
      .prepare('SELECT first_offset, next_offset FROM heads WHERE topic = ? AND partition = ?')
      .get(topic, partition);
    if (head === undefined || Number(head.first_offset) > offset) return isRewritePending(database);
    database.exec(`PRAGMA user_version = ${REWRITE_PENDING}`);
    database.prepare(`DELETE FROM ${recordsTable(topic, partition)} WHERE offset < ?`).run(offset);
    database
      .prepare('UPDATE heads SET first_offset = ? WHERE topic = ? AND partition = ?')
      .run(Math.min(offset, Number(head.next_offset)), topic, partition);
    return true;
  });
}

/**
 * Rewrites the file and empties the write-ahead log: deleted rows leave their bytes in free pages, in unused parts of
 * pages that were split, and in the log.
 */
async function rewrite(database: DatabaseSync, file: string): Promise<void> {
  reading(() => database.exec('VACUUM'));
  const deadline = performance.now() + READERS_TIMEOUT_MS;
  for (;;) {
    const busy = reading(() => database.prepare('PRAGMA wal_checkpoint(TRUNCATE)').get()?.busy);
    if (busy === 0) break;
    if (performance.now() > deadline)
      throw new Unavailable(`${file} is being read: dropped records are still in its write-ahead log`);
    await sleep(50);
  }
  reading(() => database.exec('PRAGMA user_version = 0'));
}

/** Longer than the rewrite of a segment takes. */
const LOCK_TIMEOUT_MS = 120_000;
const LOCK_RETRY_MS = 50;

/**
 * Runs `work` while no other process, and no other call of this one, drops records of the topic group: sealed segments do
 * not change meanwhile, and retention may remove them whole. The lock is that of an empty database file, which the system
 * releases when a process dies. `Unavailable` after two minutes.
 */
export async function withDropLock<T>(folder: string, work: () => Promise<T>): Promise<T> {
  let lock: DatabaseSync | undefined;
  try {
    lock = new DatabaseSync(join(folder, 'drop.lock'), { timeout: 0 });
    await acquire(lock);
    return await work();
  } catch (error) {
    throw translateSqliteError(error);
  } finally {
    lock?.close();
  }
}

async function acquire(lock: DatabaseSync): Promise<void> {
  const deadline = performance.now() + LOCK_TIMEOUT_MS;
  for (;;) {
    try {
      lock.exec('BEGIN IMMEDIATE');
      return;
    } catch (error) {
      if (!isBusy(error)) throw error;
      if (performance.now() > deadline)
        throw new Unavailable('another process is dropping records of the same files', {
          cause: error,
        });
    }
    // SQLite's own busy timeout would block this thread, which may be the one that holds the lock.
    await sleep(LOCK_RETRY_MS);
  }
}
