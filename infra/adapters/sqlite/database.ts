import { existsSync, mkdirSync, readFileSync, statfsSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import { InvalidInput, Unavailable } from '@tributary/core/primitives';

export interface OpenOptions {
  readonly readOnly?: boolean;
  /** Whether a missing file is created. Default true; otherwise SQLite's own error is thrown. */
  readonly create?: boolean;
  /** How long a statement waits for another writer, ms. Default 5,000. */
  readonly busyTimeoutMs?: number | undefined;
}

/**
 * Opens a database file so that a committed transaction survives a power cut (WAL, `synchronous=FULL`) and readers
 * never wait for the writer. A missing folder is created. `Unavailable` while another process has the file locked.
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
      // Needs an exclusive lock where the file is not in WAL mode yet, or is being opened or closed by another process.
      database.exec(
        `PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = ${walPagesBeside(file, 4_000)};`,
      );
    } catch (error) {
      database.close();
      throw isBusy(error) ? translateSqliteError(error, file) : error;
    }
  }
  return database;
}

/** The connections of a store that is one file. */
interface StoreFile {
  readonly writer: DatabaseSync;
  /** Sees all commits, and never waits for the writer. */
  readonly reader: DatabaseSync;
  /** Idempotent. */
  close(): void;
}

/** Opens the file of a store. `prepare` makes its tables. */
export function openStoreFile(
  file: string,
  prepare: (writer: DatabaseSync) => void,
  options: OpenOptions = {},
): StoreFile {
  const writer = openDatabase(file, options);
  try {
    prepare(writer);
    const reader = openDatabase(file, { readOnly: true });
    let closed = false;
    return {
      writer,
      reader,
      close() {
        if (closed) return;
        closed = true;
        reader.close();
        writer.close();
      },
    };
  } catch (error) {
    writer.close();
    throw error;
  }
}

/** SQLite's default. */
const PAGE_BYTES = 4_096;
/** The part of a disk that one write-ahead log may take. A data folder has ten. */
const WAL_PART = 1 / 256;
const LEAST_WAL_PAGES = 250;

/**
 * The number of pages at which a write-ahead log is checkpointed: as wanted, and less on a small disk, as the file keeps the
 * size that it once had.
 */
export function walPages(wanted: number, diskBytes: number): number {
  return Math.min(wanted, Math.max(LEAST_WAL_PAGES, Math.floor((diskBytes * WAL_PART) / PAGE_BYTES)));
}

/** The same for the disk of an existing folder of the file. */
export function walPagesBeside(file: string, wanted: number): number {
  const { blocks, bsize } = statfsSync(dirname(file));
  return walPages(wanted, blocks * bsize);
}

/** A name with which SQLite opens the file for writing and never creates it. */
function existing(file: string): URL {
  const url = pathToFileURL(file);
  url.searchParams.set('mode', 'rw');
  return url;
}

const SQLITE_BUSY = 5;

/** SQLite's primary result codes of temporary faults, which may end without or with an operator's help. */
const TEMPORARY_CODES = new Set([
  SQLITE_BUSY,
  6, // SQLITE_LOCKED
  10, // SQLITE_IOERR
  13, // SQLITE_FULL
  14, // SQLITE_CANTOPEN
]);

/**
 * `Unavailable` for disk faults and lock contention; any other error is returned as it is. With `file`, the message names
 * the process that holds the lock, if it can be found.
 */
export function translateSqliteError(error: unknown, file?: string): unknown {
  if (!(error instanceof Error && TEMPORARY_CODES.has(primaryCode(error) ?? 0))) return error;
  const holder = file !== undefined && isBusy(error) ? lockHolderOf(file) : undefined;
  const detail = holder === undefined ? error.message : `${error.message}: ${file} is held by ${holder}`;
  return new Unavailable(`database: ${detail}`, { cause: error });
}

/** True when another connection holds the lock. */
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

/** Runs `work` outside of a transaction. Errors are translated. */
export function reading<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw translateSqliteError(error);
  }
}

/** The tables of a file. Its `user_version` is the version of its schema. */
export interface Schema {
  readonly version: number;
  /** Creates the tables in an empty file, and sets its version. */
  readonly tables: string;
  /** The action for an operator where the file has another version. */
  readonly advice: string;
}

/** Creates the tables of an empty file. Waits for no writer if they are there. Throws if the version is another. */
export function prepareSchema(
  database: DatabaseSync,
  file: string,
  { version, tables, advice }: Schema,
): void {
  if (schemaVersionOf(database) === version) return;
  inTransaction(database, () => {
    if (database.prepare('SELECT 1 FROM sqlite_schema LIMIT 1').get() === undefined) database.exec(tables);
    const found = schemaVersionOf(database);
    if (found !== version)
      throw new Error(`${file} has schema version ${found}, this program needs ${version}: ${advice}`);
  });
}

/** Opens a file that no process writes to; undefined where it does not exist. `InvalidInput` for another version. */
export function openForExport(file: string, { version }: Schema): DatabaseSync | undefined {
  if (!existsSync(file)) return undefined;
  const database = openDatabase(file, { readOnly: true });
  if (schemaVersionOf(database) === version) return database;
  database.close();
  throw new InvalidInput(`${file} was written by another release: start this one on the folder once`);
}

function schemaVersionOf(database: DatabaseSync): number {
  return reading(() => Number(database.prepare('PRAGMA user_version').get()?.user_version));
}

/** Suffixes of the files that SQLite locks: the database itself, and the index of its write-ahead log. */
const LOCKED_FILES = ['', '-shm'];

/** One line of `/proc/locks`. */
const LOCK = /^\d+: POSIX +\S+ +WRITE +(?<pid>\d+) +(?<major>[0-9a-f]+):(?<minor>[0-9a-f]+):(?<inode>\d+) /gm;

/**
 * Describes the process that holds the write lock of a database. Read from `/proc`, hence on Linux only. Undefined when
 * it is not found, e.g. because the lock was released meanwhile.
 */
export function lockHolderOf(file: string): string | undefined {
  try {
    const inodes = new Set(LOCKED_FILES.flatMap((ending) => inodeOf(file + ending)));
    const locks = [...readFileSync('/proc/locks', 'utf8').matchAll(LOCK)];
    const pids = new Set(
      locks.filter(({ groups }) => inodes.has(groups?.inode ?? '')).map(({ groups }) => Number(groups?.pid)),
    );
    // Other processes first: a lock of this process may be that of another thread or of the other file.
    const [pid] = [...pids].sort((a, b) => Number(a === process.pid) - Number(b === process.pid));
    return pid === undefined ? undefined : describeProcess(pid);
  } catch {
    return undefined; // no /proc, or no permission to read it
  }
}

function inodeOf(file: string): readonly string[] {
  const found = statSync(file, { throwIfNoEntry: false });
  return found === undefined ? [] : [String(found.ino)];
}

/** Mentions SIGSTOP, as a stopped process keeps its locks. */
function describeProcess(pid: number): string {
  if (pid === process.pid) return 'another thread of this process';
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  const name = stat.slice(stat.indexOf('(') + 1, stat.lastIndexOf(')'));
  const isStopped = /^\) [Tt] /.test(stat.slice(stat.lastIndexOf(')')));
  return `process ${pid} (${name}${isStopped ? ', which is stopped' : ''})`;
}
