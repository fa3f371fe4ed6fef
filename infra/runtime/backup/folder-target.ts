import { randomUUID } from 'node:crypto';
import { mkdir, open, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { dirname, join, relative, resolve, sep } from 'node:path';
import { messageOf } from '@tributary/core';
import { OperatorError } from '../process/lifecycle.ts';
import type { BackupTarget } from './target.ts';

/** Names of files that a killed backup was writing. */
const DRAFT = /\.[0-9a-f-]{36}\.draft$/;

/** A folder of this machine, readable by its owner alone. An object is written under another name and renamed. */
export function openFolderTarget(where: string): BackupTarget {
  const folder = resolve(where);
  const path = (key: string) => join(folder, ...key.split('/'));
  return {
    name: folder,
    staging: join(folder, 'staging'),

    async list(prefix) {
      const sizes = new Map<string, number>();
      const start = path(prefix);
      for (const entry of await entriesOf(start)) {
        const file = join(entry.parentPath, entry.name);
        if (!entry.isFile()) continue;
        if (DRAFT.test(entry.name)) continue;
        sizes.set(relative(folder, file).split(sep).join('/'), (await stat(file)).size);
      }
      return sizes;
    },

    async put(key, content) {
      const file = path(key);
      const draft = `${file}.${randomUUID()}.draft`;
      try {
        await mkdir(dirname(file), { recursive: true, mode: 0o700 });
        const handle = await open(draft, 'wx', 0o600);
        try {
          await handle.writeFile(content);
          await handle.sync();
        } finally {
          await handle.close();
        }
        await rename(draft, file);
        await syncFolder(dirname(file));
      } catch (error) {
        await rm(draft, { force: true }).catch(() => {}); // the first error is reported
        throw new OperatorError(`${folder} cannot be written to: ${messageOf(error)}`, { cause: error });
      }
    },

    async get(key) {
      try {
        return await readFile(path(key));
      } catch (error) {
        if (isMissing(error)) return undefined;
        throw new OperatorError(`${folder} cannot be read: ${messageOf(error)}`, { cause: error });
      }
    },

    remove: (key) => rm(path(key), { force: true }),
    close() {},
  };
}

async function entriesOf(folder: string) {
  try {
    return await readdir(folder, { recursive: true, withFileTypes: true });
  } catch (error) {
    if (isMissing(error)) return [];
    throw new OperatorError(`${folder} cannot be read: ${messageOf(error)}`, { cause: error });
  }
}

/** Makes new and renamed files of a folder survive a power cut. */
export async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT';
}
