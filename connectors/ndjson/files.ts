import { constants } from 'node:fs';
import { type FileHandle, lstat, mkdir, open, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { iso } from '@tributary/core';
import { codeOf, FolderRefused } from '../failures.ts';

/**
 * Appends whole lines to the current file of the folder `parts` below `root`; they are durable when it resolves. When
 * it rejects, some may be there. `now` is epoch ms.
 *
 * It keeps nothing between calls, neither a handle nor a size: whatever happened to the folder in between (a crash, a
 * full disk, another process that writes there, a file taken away) is seen and not remembered wrongly.
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
    // Before the first byte: a file that has some is taken for one whose name is durable.
    if (fresh) await syncFolders(folders);
    // A newline seals the torn line. It is not mended: bytes a reader has seen never change. Seen while another
    // process was in the middle of its write, the newline becomes an empty line behind that.
    await writeAll(handle, torn ? Buffer.concat([Buffer.from('\n'), bytes]) : bytes);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** In one write where the system takes it as one, so that lines of several processes do not mix. */
async function writeAll(handle: FileHandle, bytes: Uint8Array): Promise<void> {
  let written = 0;
  while (written < bytes.length) {
    written += (await handle.write(bytes, written)).bytesWritten;
  }
}

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

/** A file does not grow beyond this, unless one write alone is larger. */
export const MAX_FILE_BYTES = 64 * 1_024 * 1_024;

const { O_RDWR, O_APPEND, O_CREAT, O_NOFOLLOW, O_NONBLOCK } = constants;
const FLAGS = O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK;

const NEWLINE = 0x0a;

export interface OpenFile {
  readonly handle: FileHandle;
  /** True when nothing was written to it yet, and so its name may not be durable either. */
  readonly fresh: boolean;
  /** True when it ends in the middle of a line: someone died, or the disk was full, while writing it. */
  readonly torn: boolean;
}

/** Opens the file of a folder that the next `bytes` belong into at the moment `now` (epoch ms). */
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

/** The UTC day of a moment (epoch ms), `YYYY-MM-DD`. */
export function dayOf(ms: number): string {
  return iso(ms).slice(0, 10);
}

/** Names sort in the order of writing. `n` starts at 1 every day. */
export function fileName(day: string, n: number): string {
  return `${day}-${String(n).padStart(6, '0')}.ndjson`;
}

/** The number of a day's last file among the names in a folder; 1 when there is none. */
export function latestNumber(names: readonly string[], day: string): number {
  return names.reduce((latest, name) => {
    const match = NAME.exec(name);
    return match?.[1] === day ? Math.max(latest, Number(match[2])) : latest;
  }, 1);
}
