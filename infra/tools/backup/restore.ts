import { copyFile, readdir, realpath, rename, rm } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { hasCode, messageOf } from '@tributary/core';
import { InvalidArgumentError } from 'commander';
import { syncFolder } from '../../adapters/event-log/sqlite/segment-file.ts';
import { lockFolder } from '../../runtime/process/data-folder.ts';
import { OperatorError, reportErrors, translateFileError } from '../../runtime/process/lifecycle.ts';
import {
  type BackedUpFile,
  BackupFault,
  backupNames,
  digestOf,
  findBackup,
  finishFile,
  type Manifest,
  makeFolders,
  megabytes,
  readBackup,
  requireFolder,
  requireSpace,
  type StoredBackup,
  targetFolder,
} from './backup.ts';

export interface RestoreOptions {
  readonly dataDir?: string;
  /** The name of a backup. */
  readonly backup?: string;
  readonly list?: true;
  readonly check?: true;
}

/**
 * `tributary restore <source> --data-dir <folder> [--backup name]`: restores the newest backup, or that one, as a new data
 * folder. With `--list` it prints the backups, with `--check` it reads one and compares all checksums.
 */
export async function restore(
  where: string,
  { dataDir, backup, list, check }: RestoreOptions,
): Promise<number> {
  const forms = [dataDir, list, check].filter((form) => form !== undefined);
  if (forms.length !== 1) throw new InvalidArgumentError('name one of --data-dir, --list and --check');
  return reportErrors('restore', async () => {
    const source = targetFolder(where);
    await requireFolder(source);
    try {
      if (list) {
        process.stdout.write(await describeAll(source));
        return 0;
      }
      const found = await findBackup(source, backup);
      const { manifest } = found;
      if (dataDir === undefined) {
        for (const file of manifest.files)
          await expectSame(file, () => digestOf(join(found.folder, file.path)));
        process.stdout.write(`the state of ${manifest.point.at} is whole: ${megabytes(bytesOf(manifest))}\n`);
        return 0;
      }
      await restoreBackup(found, dataDir);
      process.stdout.write(describeRestored(manifest, dataDir));
      return 0;
    } catch (error) {
      throw translateFileError(error);
    }
  });
}

async function describeAll(source: string): Promise<string> {
  const lines: string[] = [];
  for (const name of await backupNames(source)) lines.push(await describeOne(source, name));
  return lines.length === 0 ? `${source} holds no finished backup\n` : lines.join('');
}

async function describeOne(source: string, name: string): Promise<string> {
  try {
    const { manifest } = await readBackup(source, name);
    const { point, version, installation } = manifest;
    return `${name}  ${point.at}  ${megabytes(bytesOf(manifest))}  ${version}  ${installation}\n`;
  } catch (error) {
    if (!(error instanceof BackupFault)) throw error;
    return `${name}  ${error.message}\n`;
  }
}

function describeRestored({ point, files }: Manifest, folder: string): string {
  const hasKeys = files.some(({ path }) => path === 'secret-keys.json');
  const lines = [
    `${folder} holds the state of ${point.at}`,
    'events that were accepted later are not in it: have the producers send them again; what is in it already is not counted again within the deduplication window',
    'deliveries that were made later are made again, with the same ids',
    ...(hasKeys
      ? []
      : ['it has no secret-keys.json: put it there, or set TRIBUTARY_SECRET_KEYS, before the start']),
  ];
  return `${lines.join('\n')}\n`;
}

function bytesOf({ files }: Manifest): number {
  return files.reduce((sum, { bytes }) => sum + bytes, 0);
}

/** `BackupFault` where a file is missing, or is not what was backed up. */
async function expectSame(
  { path, bytes, sha256 }: BackedUpFile,
  read: () => Promise<Pick<BackedUpFile, 'bytes' | 'sha256'>>,
): Promise<void> {
  const found = await read().catch((error: unknown) => {
    throw hasCode(error, 'ENOENT')
      ? new BackupFault(`${path} of the backup is missing`, { cause: error })
      : error;
  });
  if (found.bytes !== bytes || found.sha256 !== sha256)
    throw new BackupFault(`${path} of the backup is damaged: its checksum is another`);
}

/**
 * Restores a backup as the data folder `where`, which must be empty or missing. Everything is written to
 * `<where>.restoring`, checked and made durable, and renamed last: killed at any time, it leaves `where` as it was, and
 * the next restore begins anew. The folder stays locked until it has its name.
 */
export async function restoreBackup(
  { folder: source, manifest }: StoredBackup,
  where: string,
): Promise<void> {
  const folder = await emptyFolder(where);
  const draft = `${folder}.restoring`;
  await makeFolders(draft);
  const lock = lockFolder(draft);
  try {
    for (const name of await readdir(draft))
      if (!name.startsWith('lock.db')) await rm(join(draft, name), { recursive: true });
    await requireSpace(draft, bytesOf(manifest));
    const folders = new Set([draft]);
    for (const file of manifest.files) {
      const path = join(draft, file.path);
      await makeFolders(dirname(path));
      for (let at = dirname(path); !folders.has(at); at = dirname(at)) folders.add(at);
      await expectSame(file, async () => {
        await copyFile(join(source, file.path), path);
        return finishFile(path);
      });
    }
    for (const each of folders) syncFolder(each);
    await rename(draft, folder).catch((error: unknown) => {
      throw new OperatorError(
        `${folder} could not be replaced, e.g. because it is a mount point: name a folder in it (${messageOf(error)})`,
        { cause: error },
      );
    });
    syncFolder(dirname(folder));
  } finally {
    lock.release();
  }
}

/** The real path of a folder that is empty or missing. */
async function emptyFolder(where: string): Promise<string> {
  const folder = resolve(where);
  try {
    const [real, entries] = await Promise.all([realpath(folder), readdir(folder)]);
    if (entries.length > 0)
      throw new OperatorError(
        `${folder} is not empty: a restore replaces nothing, name an empty or a new folder`,
      );
    return real;
  } catch (error) {
    if (error instanceof OperatorError) throw error;
    if (!hasCode(error, 'ENOENT'))
      throw new OperatorError(`${folder} cannot be used: ${messageOf(error)}`, { cause: error });
    await makeFolders(dirname(folder));
    return join(await realpath(dirname(folder)), basename(folder));
  }
}
