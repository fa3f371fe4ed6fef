import { randomUUID } from 'node:crypto';
import { link, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { hasCode, type StoreMark } from '@tributary/core';

/** A `StoreMark` in a file next to the database files of a folder, which is created if missing. */
export function openFileStoreMark(folder: string): StoreMark {
  const file = join(folder, 'installation');
  const read = async () => {
    try {
      return (await readFile(file, 'utf8')).trim() || undefined;
    } catch (error) {
      if (hasCode(error, 'ENOENT')) return undefined;
      throw error;
    }
  };
  /** Atomic: the file appears complete or not at all. */
  const write = async (installation: string, put: (draft: string) => Promise<void>) => {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const draft = `${file}.${randomUUID()}`;
    await writeFile(draft, `${installation}\n`, { mode: 0o600, flush: true });
    try {
      await put(draft);
    } finally {
      await rm(draft, { force: true });
    }
  };
  return {
    store: `the folder ${folder}`,
    read,
    async claim(installation) {
      const found = await read();
      if (found !== undefined) return found;
      await write(installation, (draft) =>
        link(draft, file).catch((error: unknown) => {
          if (!hasCode(error, 'EEXIST')) throw error;
        }),
      );
      return (await read()) ?? installation;
    },
    replace: (installation) => write(installation, (draft) => rename(draft, file)),
    async close() {},
  };
}
