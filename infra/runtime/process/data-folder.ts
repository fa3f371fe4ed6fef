import { randomUUID } from 'node:crypto';
import {
  closeSync,
  constants,
  fchmodSync,
  fstatSync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  type Stats,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { type Logger, messageOf } from '@tributary/core';
import { isBusy, lockHolderOf } from '../../adapters/sqlite/database.ts';
import type { Config } from '../config/settings.ts';
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
export class FolderInUse extends OperatorError {
  constructor(folder: string, options?: ErrorOptions) {
    const holder = lockHolderOf(join(folder, 'lock.db'));
    const by = holder === undefined ? '' : `, ${holder}`;
    const url = addressOf(folder)?.url;
    const at = url === undefined ? '' : `, at ${url}`;
    super(
      `${folder} is used by another running Tributary${by}${at}: stop it, or set TRIBUTARY_DATA_DIR to another folder`,
      options,
    );
    this.name = 'FolderInUse';
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

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code;
}

/** Permissions of the group and of other users. */
const OTHERS = 0o077;
/** `O_NONBLOCK`: opening a pipe must not wait for a writer. `O_NOFOLLOW`: a link may lead to other programs' files. */
const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants;
/** Most paths in one log line. */
const MAX_PATHS = 10;

/**
 * The entries of a data folder. A folder with other entries is shared with other programs, e.g. `/tmp`: its own permissions
 * and those of the other entries are not changed.
 */
const DATA_ENTRIES =
  /^(log|ballast|crashes|dedupe|volume|funnel|history|health|profiles|ndjson|demo|lock\.db(-.*)?|moved\.json.*|backup\.lock(-.*)?|backup-staging|\.probe-.*|secret-keys\.(json|lock).*|dev-issuer\.json.*|quickstart\.json.*|server\.json.*|.*catalog\.snapshot.*)$/;

interface Findings {
  /** Corrected paths, each with its former mode. */
  readonly corrected: string[];
  /** Paths owned by other users. */
  readonly foreign: string[];
  /** Paths that other users may open, with the reason why that was not corrected. */
  readonly open: string[];
}

/**
 * Removes the permissions of other users from everything in the data folder: releases before 0.2 created it readable by
 * every user of the machine. Corrections, and paths that could not be corrected, are logged with path and mode. The folder
 * itself comes first, so that no other user replaces an entry during the walk. No failure here stops a start.
 */
export function makeFolderPrivate(folder: string, logger: Logger): void {
  const findings: Findings = { corrected: [], foreign: [], open: [] };
  const entries = entriesOf(folder, findings);
  const unknown = entries.filter((name) => !DATA_ENTRIES.test(name));
  if (unknown.length === 0) correct(folder, lstatOf(folder), findings, 'follow');
  else if (isOpen(lstatOf(folder)))
    logger.warn(
      { folder, mode: modeOf(lstatOf(folder)), others: unknown.slice(0, MAX_PATHS) },
      'the data folder holds files of other programs and stays open to other users: give Tributary a folder of its own',
    );
  for (const name of entries) if (DATA_ENTRIES.test(name)) walk(join(folder, name), findings);
  report(folder, findings, logger);
}

function walk(path: string, findings: Findings): void {
  const stats = lstatOf(path);
  if (stats === undefined || !(stats.isDirectory() || stats.isFile())) return;
  correct(path, stats, findings);
  if (stats.isDirectory()) for (const name of entriesOf(path, findings)) walk(join(path, name), findings);
}

function correct(path: string, stats: Stats | undefined, findings: Findings, link?: 'follow'): void {
  if (stats === undefined) return;
  if (stats.uid !== process.geteuid?.()) findings.foreign.push(`${path} (uid ${stats.uid})`);
  if (!isOpen(stats) && link === undefined) return;
  let descriptor: number | undefined;
  try {
    descriptor = openSync(path, O_RDONLY | O_NONBLOCK | (link === 'follow' ? 0 : O_NOFOLLOW));
    const found = fstatSync(descriptor);
    if (!isOpen(found)) return;
    const was = `${path} (${modeOf(found)})`;
    // A file with further hard links may belong to another program.
    if (found.isFile() && found.nlink > 1) findings.open.push(`${was}: it has other names`);
    else {
      fchmodSync(descriptor, found.mode & 0o700);
      findings.corrected.push(was);
    }
  } catch (error) {
    if (!isMissing(error)) findings.open.push(`${path} (${modeOf(stats)}): ${messageOf(error)}`);
  } finally {
    if (descriptor !== undefined) closeSync(descriptor);
  }
}

function report(folder: string, { corrected, foreign, open }: Findings, logger: Logger): void {
  if (corrected.length > 0)
    logger.warn(
      { folder, count: corrected.length, corrected: corrected.slice(0, MAX_PATHS) },
      'other users of this machine had access to the data folder: corrected, to its owner alone',
    );
  if (open.length > 0)
    logger.warn(
      { folder, count: open.length, open: open.slice(0, MAX_PATHS) },
      'other users of this machine have access to the data folder, and this process cannot correct it',
    );
  if (foreign.length > 0)
    logger.warn(
      { folder, count: foreign.length, foreign: foreign.slice(0, MAX_PATHS), uid: process.geteuid?.() },
      'a part of the data folder belongs to another user, who may read and replace it: chown it to the user of Tributary',
    );
}

/** Entries removed by another process meanwhile are skipped. */
function entriesOf(folder: string, findings: Findings): readonly string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    if (!isMissing(error)) findings.open.push(`${folder}: ${messageOf(error)}`);
    return [];
  }
}

function lstatOf(path: string): Stats | undefined {
  return lstatSync(path, { throwIfNoEntry: false });
}

function isOpen(stats: Stats | undefined): boolean {
  return stats !== undefined && !stats.isSymbolicLink() && (stats.mode & OTHERS) !== 0;
}

function modeOf(stats: Stats | undefined): string {
  return ((stats?.mode ?? 0) & 0o7777).toString(8).padStart(4, '0');
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ELOOP');
}
