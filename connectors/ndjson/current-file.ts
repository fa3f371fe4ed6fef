import { constants } from 'node:fs';
import { type FileHandle, open, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { codeOf, FolderRefused } from '../errors.ts';
import { dayOf, fileName, latestNumber } from './file-name.ts';

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
export async function openCurrentFile(folder: string, bytes: number, now: number): Promise<OpenFile> {
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
