import { mkdir, open, readdir, realpath, rename, rm, statfs } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { messageOf } from '@tributary/core';
import { lockFolder } from '../process/data-folder.ts';
import { OperatorError } from '../process/lifecycle.ts';
import { readChunks } from './chunks.ts';
import { syncFolder } from './folder-target.ts';
import type { BackedUpFile, Manifest } from './manifest.ts';
import type { BackupTarget } from './target.ts';

/** Reads the whole backup and compares all checksums. `BackupFault` at the first damage. Resolves to the bytes read. */
export async function checkBackup(source: BackupTarget, manifest: Manifest): Promise<number> {
  let bytes = 0;
  for (const file of manifest.files)
    for await (const content of readChunks(source, file)) bytes += content.length;
  return bytes;
}

/**
 * Restores a backup as the data folder `where`, which must be empty or missing. Everything is written to
 * `<where>.restoring`, checked and made durable, and renamed last: killed at any time, it leaves `where` as it was, and
 * the next restore begins anew. The folder stays locked until it has its name.
 */
export async function restore(source: BackupTarget, manifest: Manifest, where: string): Promise<void> {
  const folder = await emptyFolder(where);
  const draft = `${folder}.restoring`;
  await mkdir(draft, { recursive: true, mode: 0o700 });
  const lock = lockFolder(draft);
  try {
    for (const name of await readdir(draft))
      if (!name.startsWith('lock.db')) await rm(join(draft, name), { recursive: true });
    await checkSpace(draft, manifest);
    const folders = new Set<string>([draft]);
    for (const file of manifest.files) await restoreFile(source, file, draft, folders);
    for (const path of folders) await syncFolder(path);
    await rename(draft, folder).catch((error: unknown) => {
      throw new OperatorError(
        `${folder} could not be replaced, e.g. because it is a mount point: name a folder in it (${messageOf(error)})`,
        { cause: error },
      );
    });
    await syncFolder(dirname(folder));
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
    if (!(error instanceof Error && 'code' in error && error.code === 'ENOENT'))
      throw new OperatorError(`${folder} cannot be used: ${messageOf(error)}`, { cause: error });
    await mkdir(dirname(folder), { recursive: true });
    return join(await realpath(dirname(folder)), basename(folder));
  }
}

async function restoreFile(
  source: BackupTarget,
  file: BackedUpFile,
  draft: string,
  folders: Set<string>,
): Promise<void> {
  const path = join(draft, ...file.path.split('/'));
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  for (let folder = dirname(path); !folders.has(folder); folder = dirname(folder)) folders.add(folder);
  const handle = await open(path, 'wx', 0o600);
  try {
    for await (const content of readChunks(source, file)) await handle.writeFile(content);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

async function checkSpace(draft: string, { files }: Manifest): Promise<void> {
  const needed = files.reduce((sum, { bytes }) => sum + bytes, 0);
  const { bavail, bsize } = await statfs(draft);
  if (bavail * bsize < needed)
    throw new OperatorError(
      `${draft} has ${Math.floor((bavail * bsize) / 2 ** 20)} MiB free, and the backup needs ${Math.ceil(needed / 2 ** 20)} MiB`,
    );
}
