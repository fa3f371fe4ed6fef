import {
  closeSync,
  existsSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
} from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { TopicSpec } from '@tributary/core';
import { hasCode, newId } from '@tributary/core/primitives';
import { inTransaction } from '../../sqlite/database.ts';

/**
 * Topics are divided into three groups. Each has a folder of files and one writer at a time, so that an append of
 * received events or of a catalog fact never waits for a stage's transaction. `stages` also holds the positions of all
 * stages, in the same files as the records that stages emit.
 */
export type TopicGroup = 'received' | 'catalog' | 'stages';

export const TOPIC_GROUPS: readonly TopicGroup[] = ['received', 'catalog', 'stages'];

export function topicGroupOf(spec: TopicSpec): TopicGroup {
  if (spec.packed) return 'received';
  return spec.retentionMs === 'forever' ? 'catalog' : 'stages';
}

/** The offset of the next entry that a stage reads from a partition. */
export interface StagePosition {
  readonly stage: string;
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
}

/**
 * Compares the declared topics with the stored ones, and returns the differences that would lose records. `heads` are
 * by `topic/partition`. A topic that is no longer declared is accepted once all its records were read.
 */
export function layoutFaults(
  heads: ReadonlyMap<string, { readonly next: number }>,
  positions: readonly Omit<StagePosition, 'stage'>[],
  topics: ReadonlyMap<string, TopicSpec>,
): readonly string[] {
  const partitionCounts = new Map<string, number>();
  const unread = new Map<string, number>();
  for (const [name, { next }] of heads) {
    const topic = name.slice(0, name.lastIndexOf('/'));
    const partition = Number(name.slice(topic.length + 1));
    partitionCounts.set(topic, (partitionCounts.get(topic) ?? 0) + 1);
    const offsets = positions
      .filter((position) => position.topic === topic && position.partition === partition)
      .map(({ offset }) => offset);
    const read = offsets.length === 0 ? 0 : Math.min(next, ...offsets);
    unread.set(topic, (unread.get(topic) ?? 0) + next - read);
  }
  const faults: string[] = [];
  for (const [topic, partitions] of partitionCounts) {
    const spec = topics.get(topic);
    const left = unread.get(topic) ?? 0;
    if (spec !== undefined && spec.partitions !== partitions) {
      faults.push(`topic ${topic} has ${partitions} partitions, not ${spec.partitions}`);
    }
    if (spec === undefined && left > 0) {
      faults.push(`topic ${topic} is no longer declared and holds ${left} unread records`);
    }
  }
  return faults;
}

/**
 * A topic group is a folder of segment files, `<20 digits>.db`. Only the newest is written to. A roll writes the next one
 * under a temporary name (`prepareNext`), marks the newest as sealed in the same transaction (`seal`) and renames the
 * next one (`publishNext`). A process that finds the newest segment sealed completes the rename, so that a crash between
 * any two steps is repaired.
 */
const NAME = /^(\d{20})\.db$/;
/** The files that SQLite keeps next to an open segment. */
const SIDE_FILE = /^(\d{20})\.db-(?:wal|shm)$/;
/** The temporary name of the first segment, and its side files. */
const TEMPORARY_FIRST = /^\d{20}\.db\.[0-9a-f-]{36}(?:-(?:wal|shm|journal))?$/;

const SCHEMA = `
  CREATE TABLE segment (created_at INTEGER NOT NULL, sealed_at INTEGER);
  CREATE TABLE heads (
    topic TEXT NOT NULL, partition INTEGER NOT NULL,
    first_offset INTEGER NOT NULL, next_offset INTEGER NOT NULL, next_ordinal INTEGER NOT NULL,
    PRIMARY KEY (topic, partition)
  ) WITHOUT ROWID;
  CREATE TABLE positions (
    stage TEXT NOT NULL, topic TEXT NOT NULL, partition INTEGER NOT NULL,
    next_offset INTEGER NOT NULL, next_index INTEGER NOT NULL, generation INTEGER NOT NULL,
    PRIMARY KEY (stage, topic, partition)
  ) WITHOUT ROWID;
`;

export function segmentFile(folder: string, sequence: number): string {
  return join(folder, `${String(sequence).padStart(20, '0')}.db`);
}

function temporaryFile(folder: string, sequence: number): string {
  return `${segmentFile(folder, sequence)}.next`;
}

/** The sequence numbers of the segments in a folder, oldest first. */
export function listSegments(folder: string): number[] {
  const sequences: number[] = [];
  for (const name of readdirSync(folder)) {
    const match = NAME.exec(name);
    if (match) sequences.push(Number(match[1]));
  }
  return sequences.sort((a, b) => a - b);
}

/** The quoted name of the table with the records of a partition. */
export function recordsTable(topic: string, partition: number): string {
  return `"records/${topic.replaceAll('"', '""')}/${partition}"`;
}

/** `offset` numbers the records of a partition, `ordinal` the entries in them. */
export function createRecordsTable(database: DatabaseSync, topic: string, partition: number): void {
  database.exec(
    `CREATE TABLE ${recordsTable(topic, partition)} (
       offset INTEGER PRIMARY KEY, ordinal INTEGER NOT NULL, timestamp INTEGER NOT NULL,
       key TEXT NOT NULL, headers TEXT NOT NULL, value TEXT NOT NULL
     )`,
  );
}

/** Creates the missing tables of the topics' partitions. */
export function createTables(database: DatabaseSync, specs: readonly TopicSpec[]): void {
  for (const { name, partitions } of specs) {
    for (let partition = 0; partition < partitions; partition++) {
      const known = database
        .prepare('SELECT 1 FROM heads WHERE topic = ? AND partition = ?')
        .get(name, partition);
      if (known) continue;
      database.prepare('INSERT INTO heads VALUES (?, ?, 0, 0, 0)').run(name, partition);
      createRecordsTable(database, name, partition);
    }
  }
}

/** Creates the folder and its first segment unless there is one. Safe in several processes: the first wins. */
export function createFirstSegment(folder: string, now: number): void {
  mkdirSync(folder, { recursive: true });
  if (listSegments(folder).length > 0) return;
  const temporary = `${segmentFile(folder, 1)}.${newId()}`;
  try {
    writeSegment(temporary, now, () => {});
    linkSync(temporary, segmentFile(folder, 1));
    syncFolder(folder);
  } catch (error) {
    // Another process was first, and may have removed this file as the remains of a crash.
    if (listSegments(folder).length === 0) throw error;
  } finally {
    for (const suffix of ['', '-wal', '-shm', '-journal']) rmSync(temporary + suffix, { force: true });
  }
}

/** Rolls the newest segment, which `database` has open, unless another process did. */
export function roll(database: DatabaseSync, folder: string, sequence: number, now: number): void {
  inTransaction(database, () => {
    if (isSealed(database)) return;
    prepareNext(database, folder, sequence, now);
    seal(database, now);
  });
  publishNext(folder, sequence);
}

/** Writes the segment after `sequence` under its temporary name. The caller holds the write lock of `sequence`. */
export function prepareNext(database: DatabaseSync, folder: string, sequence: number, now: number): void {
  const temporary = temporaryFile(folder, sequence + 1);
  for (const suffix of ['', '-wal', '-shm', '-journal']) rmSync(temporary + suffix, { force: true });
  writeSegment(temporary, now, (next) => copyHeads(database, next));
  syncFolder(folder);
}

export function seal(database: DatabaseSync, now: number): void {
  database.prepare('UPDATE segment SET sealed_at = ?').run(now);
}

export function isSealed(database: DatabaseSync): boolean {
  return database.prepare('SELECT sealed_at FROM segment').get()?.sealed_at !== null;
}

/** Whether it holds no record. */
export function isEmpty(database: DatabaseSync): boolean {
  return database.prepare('SELECT 1 FROM heads WHERE next_offset > first_offset').get() === undefined;
}

/** Renames the segment after a sealed one to its final name. Safe to repeat, and in several processes. */
export function publishNext(folder: string, sequence: number): void {
  try {
    renameSync(temporaryFile(folder, sequence + 1), segmentFile(folder, sequence + 1));
    syncFolder(folder);
  } catch (error) {
    if (!hasCode(error, 'ENOENT')) throw error;
    const newest = listSegments(folder).at(-1) ?? 0;
    if (newest <= sequence)
      throw new Error(`segment ${sequence + 1} of ${folder} is missing`, { cause: error });
  }
}

/** Removes a sealed segment. Safe to repeat; readers that have it open can still read it. */
export function removeSegment(folder: string, sequence: number): void {
  for (const suffix of ['', '-wal', '-shm']) rmSync(segmentFile(folder, sequence) + suffix, { force: true });
}

/**
 * Removes files that a killed process left: SQLite's side files of removed segments, which hold records of them, and
 * temporary files of the first segment. Safe to repeat, and in several processes.
 */
export function removeOrphanedFiles(folder: string): void {
  const newest = listSegments(folder).at(-1) ?? 0;
  for (const name of readdirSync(folder)) {
    const sideFile = SIDE_FILE.exec(name);
    const isOrphan =
      sideFile !== null && Number(sideFile[1]) < newest && !segmentExists(folder, Number(sideFile[1]));
    if (isOrphan || TEMPORARY_FIRST.test(name)) rmSync(join(folder, name), { force: true });
  }
}

export function segmentExists(folder: string, sequence: number): boolean {
  return existsSync(segmentFile(folder, sequence));
}

/** Uses a rollback journal and closes the file before it gets its final name, so that no side file belongs to it. */
function writeSegment(file: string, now: number, fill: (next: DatabaseSync) => void): void {
  const next = new DatabaseSync(file);
  try {
    next.exec('PRAGMA journal_mode = DELETE; PRAGMA synchronous = FULL;');
    inTransaction(next, () => {
      next.exec(SCHEMA);
      next.prepare('INSERT INTO segment (created_at, sealed_at) VALUES (?, NULL)').run(now);
      fill(next);
    });
    next.exec('PRAGMA journal_mode = WAL;');
  } finally {
    next.close();
  }
}

/** Copies ends and positions: the next segment continues where this one ends. */
function copyHeads(from: DatabaseSync, to: DatabaseSync): void {
  const insertHead = to.prepare('INSERT INTO heads VALUES (?, ?, ?, ?, ?)');
  for (const row of from.prepare('SELECT topic, partition, next_offset, next_ordinal FROM heads').iterate()) {
    const [topic, partition] = [String(row.topic), Number(row.partition)];
    const next = Number(row.next_offset);
    insertHead.run(topic, partition, next, next, Number(row.next_ordinal));
    createRecordsTable(to, topic, partition);
  }
  const insertPosition = to.prepare('INSERT INTO positions VALUES (?, ?, ?, ?, ?, ?)');
  for (const row of from.prepare('SELECT * FROM positions').iterate()) {
    const { stage, topic, partition, next_offset, next_index, generation } = row;
    const position = [partition, next_offset, next_index, generation].map(Number);
    insertPosition.run(String(stage), String(topic), ...position);
  }
}

/** Makes new and renamed files of a folder survive a power cut. */
export function syncFolder(folder: string): void {
  const descriptor = openSync(folder, 'r');
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}
