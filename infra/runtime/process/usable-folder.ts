import { randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { type Logger, messageOf } from '@tributary/core';
import type { Config } from '../config/settings.ts';
import { Ballast } from './ballast.ts';
import { makeFolderPrivate } from './data-folder.ts';
import { OperatorError } from './lifecycle.ts';
import { refuseMovedFolder } from './moved-installation.ts';

/** The data folder cannot hold this process's data. The message names the folder, the reason and what to do. */
export class FolderUnusable extends OperatorError {
  constructor(folder: string, reason: string, options?: ErrorOptions) {
    super(`the data folder ${folder} cannot be used: ${reason}`, options);
    this.name = 'FolderUnusable';
  }
}

/** A probe of this size needs blocks of its own on the disk. */
const PROBE_BYTES = 64 * 1024;

/**
 * Makes the data folder private, after a check that it can be used: `FolderUnusable` or `FolderMoved` otherwise. A process that keeps
 * nothing there, because every store is on an engine, continues without the check.
 */
export function useDataFolder(config: DataFolderConfig, logger: Logger): void {
  if (keepsDataHere(config)) {
    provideFolder(config.dataFolder, logger);
    refuseMovedFolder(config.dataFolder);
  }
  makeFolderPrivate(config.dataFolder, logger);
}

/**
 * The same for a command beside a server. Root is refused where the folder is another user's: the server could
 * not read the files that root writes there.
 */
export function useFolderOfServer(config: DataFolderConfig, logger: Logger): void {
  if (keepsDataHere(config)) refuseFolderOfOther(config.dataFolder);
  useDataFolder(config, logger);
}

/** Refuses root where the folder is another user's. */
export function refuseFolderOfOther(folder: string): void {
  const owner = process.geteuid?.() === 0 ? ownerOf(folder) : 0;
  if (owner !== 0)
    throw new OperatorError(
      `the data folder ${folder} belongs to the user with uid ${owner}, and files of root in it would lock the server out: run this as that user, e.g. setpriv --reuid ${owner} --clear-groups -- tributary ...`,
    );
}

/** 0 for a folder that does not exist, or cannot be looked at. */
function ownerOf(folder: string): number {
  try {
    return statSync(folder, { throwIfNoEntry: false })?.uid ?? 0;
  } catch {
    return 0; // the reason is reported by its use
  }
}

type DataFolderConfig = Pick<Config, 'dataFolder' | 'kafkaBrokers' | 'redisUrl' | 'elasticsearchUrl'>;

/** Whether any store is in the data folder. */
export function keepsDataHere({ kafkaBrokers, redisUrl, elasticsearchUrl }: DataFolderConfig): boolean {
  return kafkaBrokers.length === 0 || redisUrl === undefined || elasticsearchUrl === undefined;
}

/**
 * Creates the folder if only it is missing: a missing parent is more likely a mistyped path, or a disk that is not mounted.
 * Then tries what the stores need of it, in files of its own: to write, to lock and to share memory (SQLite's WAL).
 */
function provideFolder(folder: string, logger: Logger): void {
  makeRoomIn(folder);
  const probe = join(folder, `.probe-${randomUUID()}`);
  try {
    attempt(folder, () => makeFolder(folder));
    attempt(folder, () => writeFileSync(probe, Buffer.alloc(PROBE_BYTES, 1), { mode: 0o600, flush: true }));
    rmSync(probe);
    attempt(folder, () => probeDatabase(probe));
  } catch (error) {
    // What is there can still be read, and removed once some space is found.
    if (!(isFull(error) && existsSync(join(folder, 'log')))) throw error;
    logger.error(
      { folder, error: messageOf(error) },
      'the disk of the data folder is full: reads and removals are served as far as they find space; free some',
    );
  } finally {
    removeProbe(folder, probe);
  }
}

/** A start on a full disk needs a few bytes: the stores open their files, and stages take their partitions. */
function makeRoomIn(folder: string): void {
  try {
    new Ballast(folder).makeRoom();
  } catch {
    // The folder is missing, or cannot be used: reported by the probe.
  }
}

function isFull(error: unknown): boolean {
  return error instanceof FolderUnusable && reasonOf(error.cause, '') === FULL;
}

function makeFolder(folder: string): void {
  const stats = statSync(folder, { throwIfNoEntry: false });
  if (stats?.isDirectory()) return;
  if (stats !== undefined)
    throw new Unfit('it is a file, and must be a folder: set TRIBUTARY_DATA_DIR to one');
  mkdirSync(folder, { mode: 0o700 });
}

/** Opens, locks and writes a database of its own, so a lock of another process cannot be the reason of a failure. */
function probeDatabase(file: string): void {
  const database = new DatabaseSync(file, { timeout: 0 });
  try {
    const { journal_mode: mode } = database.prepare('PRAGMA journal_mode = WAL').get() ?? {};
    if (mode !== 'wal') throw new Unfit(NO_LOCKS);
    database.exec('BEGIN IMMEDIATE; CREATE TABLE probe (value); COMMIT');
  } finally {
    database.close();
  }
}

function removeProbe(folder: string, probe: string): void {
  try {
    for (const ending of ['', '-wal', '-shm', '-journal']) rmSync(probe + ending, { force: true });
  } catch {
    return; // the reason is reported by the failed probe, or the next start removes it
  }
  for (const name of leftProbes(folder)) rmSync(join(folder, name), { force: true });
}

/** Probes of processes that were killed meanwhile, and are older than any running probe. */
function leftProbes(folder: string): readonly string[] {
  const oldest = Date.now() - 60_000;
  try {
    return readdirSync(folder).filter(
      (name) =>
        name.startsWith('.probe-') &&
        (statSync(join(folder, name), { throwIfNoEntry: false })?.mtimeMs ?? oldest) < oldest,
    );
  } catch {
    return [];
  }
}

/** A fault that needs no translation. */
class Unfit extends Error {}

function attempt(folder: string, step: () => void): void {
  try {
    step();
  } catch (error) {
    throw new FolderUnusable(folder, reasonOf(error, folder), { cause: error });
  }
}

const NO_LOCKS =
  'its file system lacks the file locks or shared memory that SQLite needs, as many network file systems do: set TRIBUTARY_DATA_DIR to a folder on a local disk';
const FULL = 'its disk is full, or the quota of its user: free space there, and start again';
const READ_ONLY =
  'its file system is read-only: mount it for writing (a disk with errors is remounted read-only, see dmesg; a systemd unit must name the folder in StateDirectory or ReadWritePaths), or set TRIBUTARY_DATA_DIR to another folder';

/** The fault of a folder and its remedy, by the error that using it gave. */
export function reasonOf(error: unknown, folder: string): string {
  if (error instanceof Unfit) return error.message;
  const parent = dirname(folder);
  switch (codeOf(error)) {
    case 'ENOENT':
      return `${parent} does not exist: create it, mount its disk, or set TRIBUTARY_DATA_DIR to another folder`;
    case 'EEXIST':
      return 'it is a link that leads nowhere: correct the link, or set TRIBUTARY_DATA_DIR to another folder';
    case 'ENOTDIR':
      return 'a part of its path is a file: set TRIBUTARY_DATA_DIR to another folder';
    case 'ELOOP':
      return 'its links lead to each other: set TRIBUTARY_DATA_DIR to another folder';
    case 'EPERM':
      return 'the system forbids to write there, e.g. by an immutable attribute (lsattr shows it, chattr -i removes it)';
    case 'EACCES':
      return `the user of this process (uid ${process.geteuid?.() ?? '?'}) may not write there: give the folder to that user (chown), or run as its owner`;
    case 'EROFS':
      return READ_ONLY;
    case 'ENOSPC':
    case 'EDQUOT':
      return FULL;
    default:
      return reasonOfSqlite(error) ?? messageOf(error);
  }
}

/** The probe database is new and nobody else's, so a lock that is refused shows a file system without locks. */
function reasonOfSqlite(error: unknown): string | undefined {
  if (!(error instanceof Error && 'errcode' in error && typeof error.errcode === 'number')) return undefined;
  switch (error.errcode & 0xff) {
    case 8: // SQLITE_READONLY
      return READ_ONLY;
    case 13: // SQLITE_FULL
      return FULL;
    case 5: // SQLITE_BUSY: also for ENOLCK
    case 10: // SQLITE_IOERR: of locks and shared memory, as plain writes have succeeded
    case 14: // SQLITE_CANTOPEN
    case 15: // SQLITE_PROTOCOL
      return `${NO_LOCKS} (SQLite: ${error.message})`;
    default:
      return undefined;
  }
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined;
}
