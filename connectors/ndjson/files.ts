import { constants } from 'node:fs';
import { type FileHandle, lstat, mkdir, open, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { iso } from '@tributary/core';
import { codeOf, FolderRefused } from '../failures.ts';

/**
 * Appends lines to the current file of the folder `parts` below `root`; they are durable when it resolves. When it rejects,
 * some may have been written. `now` is epoch ms.
 *
 * Stateless, without an open handle or a remembered size: between calls a crash, a full disk, another process or a reader
 * that removes files may have changed the folder.
 */
export async function appendDurably(
  root: string,
  parts: readonly string[],
  lines: string,
  now: number,
): Promise<void> {
  const folders = await openFolders(root, parts);
  const bytes = Buffer.from(lines);
  const { handle, fresh, torn } = await openCurrentFile(folders.at(-1) ?? root, bytes.length, now);
  try {
    // Before the first byte: the name of a file with content is taken to be durable.
    if (fresh) await syncFolders(folders);
    // A newline ends the torn line, which is not repaired: written bytes never change. If another process was in the middle
    // of its write, the newline becomes an empty line behind it.
    await writeAll(handle, torn ? Buffer.concat([Buffer.from('\n'), bytes]) : bytes);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** A single write where the system accepts it, so that lines of several processes do not mix. */
async function writeAll(handle: FileHandle, bytes: Uint8Array): Promise<void> {
  let written = 0;
  while (written < bytes.length) {
    written += (await handle.write(bytes, written)).bytesWritten;
  }
}

/**
 * Creates the nested folders `parts` below `root` where they are missing, and returns all their paths, `root` first.
 * Throws `FolderRefused` where one is a symbolic link, and system errors.
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

/** Makes the directory entries durable (fsync). */
async function syncFolders(folders: readonly string[]): Promise<void> {
  for (const folder of folders) {
    const handle = await open(folder, 'r');
    try {
      await handle.sync();
    } finally {
      await handle.close();
    }
  }
}

/** Maximum size of a file, unless a single write is larger. */
export const MAX_FILE_BYTES = 64 * 1_024 * 1_024;

const { O_RDWR, O_APPEND, O_CREAT, O_NOFOLLOW, O_NONBLOCK } = constants;
const FLAGS = O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK;

const NEWLINE = 0x0a;

interface OpenFile {
  readonly handle: FileHandle;
  /** Whether the file is empty, so that its name may not be durable. */
  readonly fresh: boolean;
  /** Whether the file ends inside a line, after a crash or on a full disk. */
  readonly torn: boolean;
}

/** Opens the file that the next `bytes` are appended to at the time `now` (epoch ms). */
async function openCurrentFile(folder: string, bytes: number, now: number): Promise<OpenFile> {
  const day = dayOf(now);
  for (let n = latestNumber(await readdir(folder), day); ; n++) {
    const handle = await openFile(join(folder, fileName(day, n)));
    try {
      const found = await handle.stat();
      if (!found.isFile()) throw new FolderRefused('a name in the folder is no file');
      const fresh = found.size === 0;
      if (fresh || found.size + bytes <= MAX_FILE_BYTES) {
        return { handle, fresh, torn: !fresh && !(await endsLine(handle, found.size)) };
      }
    } catch (error) {
      await handle.close();
      throw error;
    }
    await handle.close();
  }
}

async function openFile(path: string): Promise<FileHandle> {
  try {
    return await open(path, FLAGS, 0o600);
  } catch (error) {
    if (codeOf(error) === 'ELOOP') throw new FolderRefused('a name in the folder is a symbolic link');
    throw error;
  }
}

async function endsLine(handle: FileHandle, size: number): Promise<boolean> {
  const { buffer, bytesRead } = await handle.read(Buffer.alloc(1), 0, 1, size - 1);
  return bytesRead === 1 && buffer[0] === NEWLINE;
}

const NAME = /^(\d{4}-\d{2}-\d{2})-(\d{6})\.ndjson$/;

/** The UTC day of a time (epoch ms), `YYYY-MM-DD`. */
export function dayOf(ms: number): string {
  return iso(ms).slice(0, 10);
}

/** Names sort in the order of writing. `n` starts at 1 every day. */
export function fileName(day: string, n: number): string {
  return `${day}-${String(n).padStart(6, '0')}.ndjson`;
}

/** The number of a day's last file among the names of a folder; 1 without one. */
export function latestNumber(names: readonly string[], day: string): number {
  return names.reduce((latest, name) => {
    const match = NAME.exec(name);
    return match?.[1] === day ? Math.max(latest, Number(match[2])) : latest;
  }, 1);
}
