import { lstat, mkdir, open } from 'node:fs/promises';
import { join } from 'node:path';
import { codeOf, FolderRefused } from '../errors.ts';

/**
 * Makes the folders `parts` one inside the other below `root`, where they are missing, and gives the paths of all of
 * them, `root` first. `FolderRefused` when one of them is a symbolic link; system errors as they come.
 */
export async function openFolders(
  root: string,
  parts: readonly string[],
): Promise<readonly [string, ...string[]]> {
  await mkdir(root, { recursive: true });
  const folders: [string, ...string[]] = [root];
  let path = root;
  for (const part of parts) {
    path = join(path, part);
    await openFolder(path);
    folders.push(path);
  }
  return folders;
}

async function openFolder(path: string): Promise<void> {
  try {
    await mkdir(path);
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error;
    const found = await lstat(path);
    if (found.isSymbolicLink()) throw new FolderRefused('a part of the folder is a symbolic link');
  }
}

/** Makes the names inside folders survive a power cut. */
export async function syncFolders(folders: readonly string[]): Promise<void> {
  for (const folder of folders) {
    const handle = await open(folder, 'r');
    try {
      await handle.sync();
    } finally {
      await handle.close();
    }
  }
}
