import { randomFillSync } from 'node:crypto';
import { mkdirSync, rmSync, statfsSync, statSync } from 'node:fs';
import { open, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';

/** The space of a disk, bytes. */
export interface DiskSpace {
  /** Free space that the user of this process may use. */
  readonly free: number;
  readonly size: number;
}

/** The largest ballast, and its part of a smaller disk. */
const MOST_BYTES = 32 * 2 ** 20;
const PART = 1 / 32;
/** Given up one by one: another program that fills the disk may take the space of one before it is used. */
const SLICES = 8;
const CHUNK_BYTES = 256 * 1024;

/**
 * Files that hold no data, in the data folder. One of them is removed when a removal or a sign-in needs space on a full
 * disk: these add records before anything can be dropped. Several threads and processes may use the same folder.
 */
export class Ballast {
  readonly #folder: string;
  readonly #parent: string;

  constructor(dataFolder: string) {
    this.#parent = dataFolder;
    this.#folder = join(dataFolder, 'ballast');
  }

  /** Bytes that are not there, because they were given up or never made. */
  missing(size: number): number {
    const bytes = sliceBytes(size);
    return this.#slices().reduce((sum, file) => sum + Math.max(0, bytes - bytesOf(file)), 0);
  }

  /**
   * Gives up what is needed for a slice of free space, if the disk has none. Costs a few microseconds otherwise. Returns
   * whether there is room. `of`: for all, or for what is served from the first half of the ballast alone.
   */
  makeRoom(of: 'all' | 'half' = 'all'): boolean {
    const { bavail, blocks, bsize } = statfsSync(this.#parent);
    let free = bavail * bsize;
    const wanted = sliceBytes(blocks * bsize);
    const slices = this.#slices();
    for (const file of of === 'all' ? slices : slices.slice(0, SLICES / 2)) {
      if (free >= wanted) return true;
      const bytes = bytesOf(file);
      rmSync(file, { force: true });
      free += bytes;
    }
    return free >= wanted;
  }

  /** Makes one missing slice. Returns whether all are there. */
  async restoreOne(size: number): Promise<boolean> {
    const bytes = sliceBytes(size);
    const [missing, ...others] = this.#slices().filter((file) => bytesOf(file) < bytes);
    if (missing === undefined) return true;
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
    const draft = `${missing}.new`;
    try {
      await writeOut(draft, bytes);
      await rename(draft, missing);
    } catch (error) {
      await rm(draft, { force: true });
      throw error;
    }
    return others.length === 0;
  }

  #slices(): readonly string[] {
    return Array.from({ length: SLICES }, (_, n) => join(this.#folder, String(n)));
  }
}

function sliceBytes(size: number): number {
  return Math.floor(Math.min(MOST_BYTES, size * PART) / SLICES);
}

function bytesOf(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0;
}

/** Random bytes: a file system may store zeros, or compress others, without taking the space. */
async function writeOut(file: string, bytes: number): Promise<void> {
  const handle = await open(file, 'w', 0o600);
  try {
    const chunk = randomFillSync(Buffer.allocUnsafe(Math.min(bytes, CHUNK_BYTES)));
    for (let left = bytes; left > 0; left -= chunk.length)
      await handle.write(chunk, 0, Math.min(left, chunk.length));
  } finally {
    await handle.close();
  }
}
