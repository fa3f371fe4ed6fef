import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import { Unavailable } from '@tributary/core';
import { lockHolderOf } from './lock-holder.ts';

export interface OpenOptions {
  readonly readOnly?: boolean;
  /** Whether a missing file is made. Default true; without, it is SQLite's own error that it cannot be opened. */
  readonly create?: boolean;
  /** How long a statement waits for another writer, ms. Default 5,000. */
  readonly busyTimeoutMs?: number;
}

/**
 * Opens a database file so that a committed transaction survives a power cut (WAL, `synchronous=FULL`) and readers
 * never wait for the writer. The folder is made when it is missing. `Unavailable` while another process keeps it locked.
 */
export function openDatabase(file: string, options: OpenOptions = {}): DatabaseSync {
  const readOnly = options.readOnly ?? false;
  const create = !readOnly && (options.create ?? true);
  if (create) mkdirSync(dirname(file), { recursive: true });
  const database = new DatabaseSync(readOnly || create ? file : existing(file), {
    readOnly,
    timeout: options.busyTimeoutMs ?? 5_000,
  });
  if (!readOnly) {
    try {
      // Takes a lock of the file for itself where it is not in this mode yet, and where others open or close it.
      database.exec(
        'PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 4000;',
      );
    } catch (error) {
      database.close();
      throw isBusy(error) ? translateSqliteError(error, file) : error;
    }
  }
  return database;
}

/** Opened for reading and writing, never made. */
function existing(file: string): URL {
  const url = pathToFileURL(file);
  url.searchParams.set('mode', 'rw');
  return url;
}

const SQLITE_BUSY = 5;

/** SQLite's primary result codes that pass by themselves or by an operator's hand: the same call may succeed later. */
const PASSING_CODES = new Set([
  SQLITE_BUSY,
  6, // SQLITE_LOCKED
  10, // SQLITE_IOERR
  13, // SQLITE_FULL
  14, // SQLITE_CANTOPEN
]);

/**
 * `Unavailable` for faults of the disk or of contention, the error itself for everything else. With `file`, the message
 * names the process that has the lock, where it can be told.
 */
export function translateSqliteError(error: unknown, file?: string): unknown {
  if (!(error instanceof Error && PASSING_CODES.has(primaryCode(error) ?? 0))) return error;
  const holder = file !== undefined && isBusy(error) ? lockHolderOf(file) : undefined;
  const words = holder === undefined ? error.message : `${error.message}: ${file} is held by ${holder}`;
  return new Unavailable(`database: ${words}`, { cause: error });
}

/** True when another connection has the lock that was asked for. */
export function isBusy(error: unknown): boolean {
  return primaryCode(error) === SQLITE_BUSY || (error instanceof Unavailable && isBusy(error.cause));
}

function primaryCode(error: unknown): number | undefined {
  if (!(error instanceof Error && 'errcode' in error && typeof error.errcode === 'number')) return undefined;
  return error.errcode & 0xff;
}

/** Runs `work` in one write transaction; rolls back when it throws. Errors are translated. */
export function inTransaction<T>(database: DatabaseSync, work: () => T): T {
  try {
    database.exec('BEGIN IMMEDIATE');
    try {
      const result = work();
      database.exec('COMMIT');
      return result;
    } catch (error) {
      if (database.isTransaction) database.exec('ROLLBACK');
      throw error;
    }
  } catch (error) {
    throw translateSqliteError(error, database.location() ?? undefined);
  }
}

/** Runs `work`, which reads, outside of any transaction. Errors are translated. */
export function reading<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw translateSqliteError(error);
  }
}
