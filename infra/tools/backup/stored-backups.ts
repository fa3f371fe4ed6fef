import { createHash } from 'node:crypto';
import { mkdir, open, readdir, readFile, readlink, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { messageOf } from '@tributary/core';
import { OperatorError } from '../../runtime/process/lifecycle.ts';

/*
 * A target is a folder with one folder for each backup, named by the time of its point. Such a folder has the files of the
 * data folder under their own names, and `backup.json`, which describes them.
 */

/** Of an installation begun by 0.1.0, until its upgrade gives it an id. */
export const UNNAMED = 'unnamed';

/** The folder of a backup that is being made, or was killed. */
export const DRAFT = 'unfinished';

const MANIFEST = 'backup.json';
const NAME = /^\d{8}T\d{9}Z$/;
/** Raised with each change of the layout of a backup that an older release cannot restore. */
const FORMAT = 2;

export interface BackedUpFile {
  /** Below the data folder, with `/`. */
  readonly path: string;
  readonly bytes: number;
  readonly sha256: string;
  /** Identifies a sealed segment, whose content never changes: the next backup links the file instead of copying it. */
  readonly fingerprint?: string;
}

export interface Manifest {
  readonly format: typeof FORMAT;
  /** The release that made the backup. */
  readonly version: string;
  /** Its id, or `UNNAMED`. */
  readonly installation: string;
  /** The point of time, and the ends of all partitions of the log at it, by `topic/partition`. */
  readonly point: { readonly at: string; readonly log: Readonly<Record<string, number>> };
  readonly files: readonly BackedUpFile[];
}

export interface StoredBackup {
  /** Names sort by time. */
  readonly name: string;
  readonly folder: string;
  readonly manifest: Manifest;
}

/** A backup that cannot be restored, with what is wrong with it. */
export class BackupFault extends OperatorError {}

export function backupName(at: number): string {
  return new Date(at).toISOString().replace(/[-:.]/g, '');
}

export function writeManifest(folder: string, content: Omit<Manifest, 'format'>): Promise<void> {
  const manifest: Manifest = { format: FORMAT, ...content };
  return writeFile(join(folder, MANIFEST), `${JSON.stringify(manifest, null, 1)}\n`, {
    mode: 0o600,
    flush: true,
  });
}

/** The names of the finished backups, oldest first. */
export async function backupNames(target: string): Promise<readonly string[]> {
  return (await entriesOf(target)).filter((name) => NAME.test(name)).sort();
}

async function entriesOf(target: string): Promise<readonly string[]> {
  try {
    return await readdir(target);
  } catch (error) {
    if (isMissing(error)) return [];
    throw new OperatorError(`${target} cannot be read: ${messageOf(error)}`, { cause: error });
  }
}

/** `BackupFault` for a backup without a manifest, or with one that cannot be used. */
export async function readBackup(target: string, name: string): Promise<StoredBackup> {
  const folder = join(target, name);
  const text = await readFile(join(folder, MANIFEST), 'utf8').catch((error: unknown) => {
    throw new BackupFault(`${folder} is no whole backup: ${messageOf(error)}`, { cause: error });
  });
  return { name, folder, manifest: parseManifest(name, text) };
}

export function parseManifest(name: string, text: string): Manifest {
  const manifest = parsed(text);
  if (!Array.isArray(manifest?.files) || typeof manifest.point?.at !== 'string')
    throw new BackupFault(`the manifest of ${name} is damaged`);
  const { format, version, files } = manifest as Manifest;
  if (format !== FORMAT)
    throw new BackupFault(
      `${name} has format ${format}, this release restores format ${FORMAT}: use the release that made it, ${version}`,
    );
  if (!files.every(({ path }) => isInside(path)))
    throw new BackupFault(`the manifest of ${name} has a path outside of the data folder`);
  return manifest as Manifest;
}

function parsed(text: string): Partial<Manifest> | undefined {
  try {
    return Object(JSON.parse(text)) as Partial<Manifest>;
  } catch {
    return undefined;
  }
}

/** True for a relative path without steps upwards. */
function isInside(path: string): boolean {
  return (
    path !== '' && path.split('/').every((part) => !['', '.', '..'].includes(part) && !part.includes('\0'))
  );
}

/** The newest backup whose manifest can be read: a damaged one prevents its restore, not the next backup. */
export async function newestBackup(target: string): Promise<StoredBackup | undefined> {
  for (const name of (await backupNames(target)).toReversed())
    try {
      return await readBackup(target, name);
    } catch (error) {
      if (!(error instanceof BackupFault)) throw error;
    }
  return undefined;
}

/** The backup of that name, or the newest one. `OperatorError` where there is none that was finished. */
export async function findBackup(target: string, name?: string): Promise<StoredBackup> {
  const names = await backupNames(target);
  const wanted = name ?? names.at(-1);
  if (wanted !== undefined && names.includes(wanted)) return readBackup(target, wanted);
  if (names.length > 0)
    throw new OperatorError(
      `${target} has no backup ${name}: \`tributary restore --list\` names those it has`,
    );
  const entries = await entriesOf(target);
  if (entries.includes('manifests'))
    throw new OperatorError(
      `${target} holds backups of 0.2.0, in chunks: restore them with that release, or as docs/operations/backup.md says`,
    );
  throw new OperatorError(
    entries.includes(DRAFT)
      ? `${target} holds an unfinished backup only: there is nothing to restore`
      : `${target} holds no backup`,
  );
}

/** Removes all but the newest backups. Returns how many it removed. */
export async function removeOlder(target: string, keep: number): Promise<number> {
  const older = (await backupNames(target)).slice(0, -keep);
  for (const name of older) {
    // Renamed first: killed in between, it leaves no backup that has lost files.
    await rename(join(target, name), join(target, DRAFT));
    await rm(join(target, DRAFT), { recursive: true });
  }
  return older.length;
}

/** Makes a file that was written durable, and private to its owner. Returns its size and checksum. */
export async function finishFile(file: string): Promise<Pick<BackedUpFile, 'bytes' | 'sha256'>> {
  const handle = await open(file, 'r');
  try {
    await handle.chmod(0o600);
    await handle.sync();
  } finally {
    await handle.close();
  }
  return digestOf(file);
}

export async function digestOf(file: string): Promise<Pick<BackedUpFile, 'bytes' | 'sha256'>> {
  const digest = createHash('sha256');
  let bytes = 0;
  const handle = await open(file, 'r');
  for await (const chunk of handle.createReadStream({ highWaterMark: READ_BYTES })) {
    digest.update(chunk);
    bytes += chunk.length;
  }
  return { bytes, sha256: digest.digest('hex') };
}

const READ_BYTES = 1024 * 1024;

/**
 * Makes a folder and those above it that are missing, for their owner alone. By single steps: the recursive `mkdir` of Node
 * does not end below `/proc`, where a folder stays missing that could not be made.
 */
export async function makeFolders(folder: string): Promise<void> {
  try {
    await mkdir(folder, { mode: 0o700 });
  } catch (error) {
    if (await isFolder(folder)) return;
    const parent = dirname(folder);
    if (isMissing(error) && !(await isFolder(parent))) {
      await makeFolders(parent);
      return makeFolders(folder);
    }
    throw new OperatorError(`${folder} cannot be made: ${await whyNot(folder, error)}`, { cause: error });
  }
}

async function whyNot(path: string, error: unknown): Promise<string> {
  const target = await readlink(path).catch(() => undefined);
  return target === undefined ? messageOf(error) : `it is a link to ${target}, which does not exist`;
}

async function isFolder(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined))?.isDirectory() === true;
}

/** Refuses a folder that does not exist, with the target of a link that leads nowhere. */
export async function requireFolder(folder: string): Promise<void> {
  try {
    await stat(folder);
  } catch (error) {
    throw new OperatorError(`${folder} cannot be read: ${await whyNot(folder, error)}`, { cause: error });
  }
}

/** Makes new and renamed entries of folders survive a power cut. */
export async function syncFolders(folders: Iterable<string>): Promise<void> {
  for (const folder of folders) {
    const handle = await open(folder, 'r');
    try {
      await handle.sync();
    } finally {
      await handle.close();
    }
  }
}

export function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT';
}
