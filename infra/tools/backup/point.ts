import { hash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { backup, type DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { Unavailable } from '@tributary/core';
import {
  isSealed,
  listSegments,
  publishNext,
  segmentFile,
} from '../../adapters/event-log/sqlite/segment-file.ts';
import { isBusy, openDatabase, translateSqliteError } from '../../adapters/sqlite/database.ts';
import type { StoreFiles } from './stores.ts';

/** Writers wait while the locks are collected: after so long they are released, and taken again later. */
const MAX_LOCKED_MS = 1_000;
const RETRY_MS = 200;
/** Pages that one step of the copy takes. */
const PAGES_PER_STEP = 1_024;

/** The content of one database file at the point, held by a read transaction until `close`. */
export interface DatabaseSnapshot {
  readonly file: string;
  /** Writes the content to a new file. */
  copyTo(target: string): Promise<void>;
  close(): void;
}

/** The state of all stores at one moment. */
export interface BackupPoint {
  readonly at: number;
  /** How long writers waited at most, ms. */
  readonly writersWaitedMs: number;
  readonly snapshots: readonly DatabaseSnapshot[];
  /** Sealed segments whose content cannot change, newest first within a folder. */
  readonly sealed: readonly { readonly folder: string; readonly sequence: number }[];
  /** The ends of the partitions of the log, by `topic/partition`. */
  readonly ends: Readonly<Record<string, number>>;
  close(): void;
}

/**
 * Takes the point: collects the write lock of every store, begins a read transaction in each, and releases the locks. In
 * WAL mode the read transactions keep that state while writers continue, so all copies are of one moment: the state that a
 * SIGKILL of all processes at that moment would have left.
 *
 * No deadlock: no writer of the stores waits for one of these locks while it holds another; claim files are written under
 * the lock of their `windows.db`. `Unavailable` when the locks cannot be had together for `timeoutMs`.
 */
export async function takePoint(stores: StoreFiles, timeoutMs: number): Promise<BackupPoint> {
  const deadline = performance.now() + timeoutMs;
  let writersWaitedMs = 0;
  const onWritersWaited = (ms: number) => {
    writersWaitedMs = Math.max(writersWaitedMs, ms);
  };
  for (;;) {
    try {
      const point = attemptPoint(stores, onWritersWaited);
      return { ...point, writersWaitedMs };
    } catch (error) {
      const translated = translateSqliteError(error);
      if (!(translated instanceof Unavailable) || performance.now() > deadline) throw translated;
    }
    await sleep(RETRY_MS * (0.5 + Math.random()));
  }
}

/** `Unavailable`, or an error of SQLite that means it, when a later attempt may succeed. */
function attemptPoint(
  stores: StoreFiles,
  onWritersWaited: (ms: number) => void,
): Omit<BackupPoint, 'writersWaitedMs'> {
  const segments = stores.groups.map((folder) => newestSegment(folder));
  const lists = stores.dedupeClaims.map((folder) => ({ folder, file: join(folder, 'windows.db') }));
  const locks = new Map<string, DatabaseSync>();
  const readers: Reader[] = [];
  let from = Number.POSITIVE_INFINITY;
  try {
    // Everything that is known is opened before any lock is held, as opening takes longest.
    for (const file of [...segments, ...lists].map((store) => store.file).concat(stores.databases)) {
      locks.set(file, openDatabase(file, { create: false, busyTimeoutMs: 0 }));
      readers.push(new Reader(file));
    }
    from = performance.now();
    for (const [file, database] of locks) acquire(file, database, from + MAX_LOCKED_MS);
    const ends: (readonly [string, number])[] = [];
    for (const { folder, sequence, file } of segments) {
      const database = locks.get(file);
      if (database === undefined || isSealed(database) || listSegments(folder).at(-1) !== sequence)
        throw new Unavailable(`${file} was sealed meanwhile`);
      ends.push(...endsOf(database));
    }
    for (const { folder, file } of lists)
      for (const claims of dedupeClaimFiles(locks.get(file), folder)) readers.push(new Reader(claims));
    for (const reader of readers) reader.begin();
    const at = Date.now();
    const sealed = segments.flatMap(olderSegments);
    const snapshots = readers.splice(0);
    return {
      at,
      snapshots,
      sealed,
      ends: Object.fromEntries(ends),
      close() {
        for (const snapshot of snapshots) snapshot.close();
      },
    };
  } finally {
    for (const database of locks.values()) database.close();
    onWritersWaited(Math.max(0, performance.now() - from));
    for (const reader of readers) reader.close();
  }
}

interface Segment {
  readonly folder: string;
  readonly sequence: number;
  readonly file: string;
}

/** Completes a roll that a killed process left, as every writer does. */
function newestSegment(folder: string): Segment {
  for (;;) {
    const sequence = listSegments(folder).at(-1);
    if (sequence === undefined) throw new Unavailable(`${folder} has no segment yet`);
    const file = segmentFile(folder, sequence);
    const database = openDatabase(file, { readOnly: true });
    try {
      if (!isSealed(database)) return { folder, sequence, file };
    } finally {
      database.close();
    }
    publishNext(folder, sequence);
  }
}

function olderSegments({ folder, sequence }: Segment) {
  return listSegments(folder)
    .filter((older) => older < sequence)
    .toReversed()
    .map((older) => ({ folder, sequence: older }));
}

function dedupeClaimFiles(list: DatabaseSync | undefined, folder: string): readonly string[] {
  return (list?.prepare('SELECT file FROM windows ORDER BY file').all() ?? [])
    .map(({ file }) => join(folder, `claims-${Number(file)}.db`))
    .filter((file) => existsSync(file));
}

function endsOf(database: DatabaseSync): readonly (readonly [string, number])[] {
  return database
    .prepare('SELECT topic, partition, next_offset FROM heads')
    .all()
    .map(({ topic, partition, next_offset }) => [`${topic}/${partition}`, Number(next_offset)] as const);
}

const PAUSE = new Int32Array(new SharedArrayBuffer(4));
const PAUSE_MS = 0.1;

/**
 * Takes the write lock; `Unavailable` if it was not free until then. Polls far more often than SQLite's busy handler: a saturated
 * writer leaves a fraction of a millisecond between two transactions.
 */
function acquire(file: string, database: DatabaseSync, until: number): void {
  for (;;) {
    try {
      database.exec('BEGIN IMMEDIATE');
      return;
    } catch (error) {
      if (!isBusy(error) || performance.now() > until) throw translateSqliteError(error, file);
    }
    Atomics.wait(PAUSE, 0, 0, PAUSE_MS);
  }
}

class Reader implements DatabaseSnapshot {
  readonly file: string;
  readonly #database: DatabaseSync;

  constructor(file: string) {
    this.file = file;
    this.#database = openDatabase(file, { readOnly: true });
  }

  /** Begins the transaction; its state is that of the first read. */
  begin(): void {
    this.#database.exec('BEGIN');
    this.#database.prepare('SELECT count(*) FROM sqlite_schema').get();
  }

  /** SQLite's online backup copies what the open transaction sees, and never starts again for later writes. */
  async copyTo(target: string): Promise<void> {
    try {
      await backup(this.#database, target, { rate: PAGES_PER_STEP });
    } catch (error) {
      throw translateSqliteError(error);
    }
  }

  close(): void {
    if (this.#database.isOpen) this.#database.close();
  }
}

/** A sealed segment, read by itself. Undefined when retention removed it since the point. */
export function openSealed(
  folder: string,
  sequence: number,
): (DatabaseSnapshot & { readonly fingerprint: string }) | undefined {
  const file = segmentFile(folder, sequence);
  try {
    const database = openDatabase(file, { readOnly: true });
    try {
      const parts = [
        'SELECT * FROM segment',
        'SELECT * FROM heads',
        'PRAGMA page_count',
        'PRAGMA user_version',
      ];
      const content = JSON.stringify(parts.map((sql) => database.prepare(sql).all()));
      const reader = new Reader(file);
      reader.begin();
      return Object.assign(reader, { fingerprint: hash('sha256', content) });
    } finally {
      database.close();
    }
  } catch (error) {
    if (!existsSync(file)) return undefined;
    throw translateSqliteError(error);
  }
}
