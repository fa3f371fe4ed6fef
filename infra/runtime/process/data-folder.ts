import { randomUUID } from 'node:crypto';
import {
  chmodSync,
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { hasCode, type Logger, messageOf, type StoreMark, TributaryError } from '@tributary/core';
import { isBusy, lockHolderOf } from '../../adapters/sqlite/database.ts';
import type { Config } from '../config/settings.ts';
import { Ballast } from './ballast.ts';
import { OperatorError } from './lifecycle.ts';
import { addressOf } from './server-address.ts';

/** The folders of the embedded adapters. */
export function embeddedFolders({ dataFolder }: Pick<Config, 'dataFolder'>) {
  return {
    log: join(dataFolder, 'log'),
    dedupe: join(dataFolder, 'dedupe'),
    reevaluated: join(dataFolder, 'dedupe', 'reevaluated'),
    volume: join(dataFolder, 'volume'),
    funnel: join(dataFolder, 'funnel'),
    history: join(dataFolder, 'history'),
    health: join(dataFolder, 'health'),
    profiles: join(dataFolder, 'profiles'),
  } as const;
}

/** Another process uses the data folder. */
class FolderInUse extends OperatorError {
  constructor(folder: string, options?: ErrorOptions) {
    const holder = lockHolderOf(join(folder, 'lock.db'));
    const by = holder === undefined ? '' : `, ${holder}`;
    const url = addressOf(folder)?.url;
    const at = url === undefined ? '' : `, at ${url}`;
    super(
      `${folder} is used by another running Tributary${by}${at}: stop it, or set TRIBUTARY_DATA_DIR to another folder`,
      options,
    );
  }
}

/** Locks the data folder for one process. The operating system releases the lock however the process ends. */
export function lockFolder(folder: string): { release(): void } {
  mkdirSync(folder, { recursive: true });
  return lockFile(join(folder, 'lock.db'), (cause) => new FolderInUse(folder, { cause }));
}

/** Locks a file for one process, without waiting: `inUse` makes the error that is thrown where another one has it. */
export function lockFile(file: string, inUse: (cause: unknown) => Error): { release(): void } {
  let database: DatabaseSync | undefined;
  try {
    database = new DatabaseSync(file, { timeout: 0 });
    // Without a journal in a file, which a full disk has no space for.
    database.exec('PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE');
  } catch (error) {
    database?.close();
    if (isBusy(error)) throw inUse(error);
    throw new OperatorError(
      `${file} cannot be locked (SQLite: ${messageOf(error)}): it holds no data, so remove it where no other Tributary runs`,
      { cause: error },
    );
  }
  const locked = database;
  return { release: () => locked.close() };
}

/**
 * The content of a file that is created once. Of several processes that start together, the first one creates it and the
 * others read it. The file appears complete or not at all, and is readable by its owner only.
 */
export function createOnce(file: string, make: () => string): string {
  const existing = readIfExists(file);
  if (existing !== undefined) return existing;
  mkdirSync(dirname(file), { recursive: true });
  const draft = `${file}.${randomUUID()}`;
  writeFileSync(draft, make(), { mode: 0o600, flush: true });
  try {
    linkSync(draft, file);
  } catch (error) {
    if (!hasCode(error, 'EEXIST')) throw error;
  } finally {
    rmSync(draft, { force: true });
  }
  return readFileSync(file, 'utf8');
}

function readIfExists(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined;
    throw error;
  }
}

/** Permissions of the group and of other users. */
const OTHERS = 0o077;
/** Most names in one log line. */
const MAX_NAMES = 10;

/** The entries of a data folder. One with other entries is shared with other programs, e.g. `/tmp`: its permissions stay. */
const DATA_ENTRIES =
  /^(log|ballast|crashes|dedupe|volume|funnel|history|health|profiles|ndjson|demo|lock\.db(-.*)?|moved\.json.*|backup\.lock(-.*)?|backup-staging|\.probe-.*|secret-keys\.(json|lock).*|dev-issuer\.json.*|quickstart\.json.*|server\.json.*|.*catalog\.snapshot.*)$/;

export function isDataEntry(name: string): boolean {
  return DATA_ENTRIES.test(name);
}

/**
 * Removes the permissions of other users from the data folder, so that nobody else gets to what is in it: releases before 0.2
 * created it readable by every user of the machine, and others create it before the first start. A correction, and what
 * prevents it, is logged. Files that are made later belong to this user alone (`umask`). No failure here stops a start.
 */
export function makeFolderPrivate(folder: string, logger: Logger): void {
  const stats = statSync(folder, { throwIfNoEntry: false });
  if (stats === undefined) return;
  if (stats.uid !== process.geteuid?.())
    logger.warn(
      { folder, owner: stats.uid, uid: process.geteuid?.() },
      'the data folder belongs to another user, who may read and replace what is in it: chown it to the user of Tributary',
    );
  if ((stats.mode & OTHERS) === 0) return;
  const mode = (stats.mode & 0o7777).toString(8).padStart(4, '0');
  try {
    const others = readdirSync(folder).filter((name) => !isDataEntry(name));
    if (others.length > 0) {
      logger.warn(
        { folder, mode, others: others.slice(0, MAX_NAMES) },
        'the data folder holds files of other programs and stays open to other users: give Tributary a folder of its own',
      );
      return;
    }
    chmodSync(folder, stats.mode & 0o700);
    logger.warn(
      { folder, mode },
      'other users of this machine had access to the data folder: corrected, to its owner alone',
    );
  } catch (error) {
    logger.warn(
      { folder, mode, error: messageOf(error) },
      'other users of this machine have access to the data folder, and this process cannot correct it',
    );
  }
}

/** The data folder cannot hold this process's data. The message names the folder, the reason and what to do. */
class FolderUnusable extends OperatorError {
  constructor(folder: string, reason: string, options?: ErrorOptions) {
    super(`the data folder ${folder} cannot be used: ${reason}`, options);
  }
}

/** A probe of this size needs blocks of its own on the disk. */
const PROBE_BYTES = 64 * 1024;

/**
 * Makes the data folder private, after a check that it can be used: `FolderUnusable` or `FolderMoved` otherwise. A process
 * that keeps nothing there, because every store is on an engine, continues without the check.
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

export type EngineConfig = Pick<Config, 'kafkaBrokers' | 'redisUrl' | 'elasticsearchUrl'>;
type DataFolderConfig = Pick<Config, 'dataFolder'> & EngineConfig;

/** Whether any store is in the data folder. */
export function keepsDataHere({ kafkaBrokers, redisUrl, elasticsearchUrl }: EngineConfig): boolean {
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
    // Existing data can still be read, and removed once some space is found.
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
function reasonOf(error: unknown, folder: string): string {
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

/** Written into a data folder whose installation was moved to a cluster. */
interface MovedMark {
  readonly installation: string;
  /** When the move was finished, ISO 8601. */
  readonly at: string;
  /** Where it is now, for operators. */
  readonly to: string;
}

/** The installation of the folder runs elsewhere: a process here would be a second one with the same ids. */
class FolderMoved extends OperatorError {
  constructor(folder: string, { at, to }: MovedMark) {
    super(
      `the installation in ${folder} was moved to ${to} at ${at}: start gateways and processors there. To use the folder here all the same, with what was in it then, remove ${fileOf(folder)}, and never let both run`,
    );
  }
}

/** Undefined for a folder that was not moved. */
export function movedMark(folder: string): MovedMark | undefined {
  const file = fileOf(folder);
  return existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as MovedMark) : undefined;
}

export function markAsMoved(folder: string, mark: MovedMark): void {
  const file = fileOf(folder);
  writeFileSync(`${file}.draft`, `${JSON.stringify(mark)}\n`, { mode: 0o600, flush: true });
  renameSync(`${file}.draft`, file);
}

function refuseMovedFolder(folder: string): void {
  const mark = movedMark(folder);
  if (mark !== undefined) throw new FolderMoved(folder, mark);
}

function fileOf(folder: string): string {
  return join(folder, 'moved.json');
}

/**
 * The mark of a store that `tributary move` fills: no process of any installation may use it. `state`: of the data folder,
 * as the stores may be copied in it already.
 */
export function unfinishedMark(installation: string, state: string): string {
  return `${installation}${UNFINISHED} of the state ${state})`;
}

export function isUnfinishedMark(mark: string, installation: string): boolean {
  return mark.startsWith(`${installation}${UNFINISHED}`);
}

const UNFINISHED = ' (unfinished move';

/** `tributary move` has not finished filling the engines. */
class UnfinishedMove extends TributaryError {
  readonly code = 'unfinished_move';
  readonly retryable = false;
}

/** `UnfinishedMove` if a store that answers is being filled. Called before anything is written to the catalog. */
export async function refuseUnfinishedMove(marks: readonly StoreMark[]): Promise<void> {
  for (const mark of marks) {
    const found = await mark.read().catch((error: unknown) => {
      // An engine that does not answer is checked later, by its mark.
      if (error instanceof TributaryError && error.retryable) return undefined;
      throw error;
    });
    if (found?.includes(UNFINISHED))
      throw new UnfinishedMove(
        `${mark.store} is being filled by \`tributary move\`, which did not finish: run it again until it says that the move is done, then start the processes`,
      );
  }
}
