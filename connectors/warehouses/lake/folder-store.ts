import { access, link, lstat, mkdir, open, readdir, readFile, rename, rm, unlink } from 'node:fs/promises';
import { dirname, join, relative, sep } from 'node:path';
import { newId, Unavailable, WarehouseRefused } from '@tributary/core';
import { codeOf, FolderRefused } from '../../failures.ts';
import { classifyFolderFailure, openFolders, syncFolders } from '../../folder.ts';
import { failedCall } from '../tables.ts';
import { checkName, type LakeStore, type StoredFile } from './store.ts';

/** The end of the name of a file that is not whole yet. */
export const UNFINISHED = '.tmp';

/** A lake in a folder of this machine. Nothing is remembered of the folder, which a person may change at any time. */
export class FolderStore implements LakeStore {
  readonly lateMoveMs = 0;
  readonly root: string;
  readonly #dataFolder: string;
  readonly #parts: readonly string[];
  readonly #folder: string;
  /** Folders whose entries may not be durable. */
  readonly #changed = new Set<string>();
  #isOpen = false;

  /** `parts`: the nested folders of the lake below the data folder. */
  constructor(dataFolder: string, parts: readonly string[]) {
    this.#dataFolder = dataFolder;
    this.#parts = parts;
    this.#folder = join(dataFolder, ...parts);
    this.root = `file:${this.#folder}`;
  }

  read(name: string, signal: AbortSignal): Promise<Uint8Array | undefined> {
    return this.#run(signal, async () => unlessMissing(readFile(await this.#path(name))));
  }

  size(name: string, signal: AbortSignal): Promise<number | undefined> {
    return this.#run(signal, async () => (await unlessMissing(lstat(await this.#path(name))))?.size);
  }

  names(folder: string, signal: AbortSignal): Promise<readonly string[]> {
    return this.#run(signal, async () => {
      const options = { recursive: true, withFileTypes: true } as const;
      const found = (await unlessMissing(readdir(await this.#path(folder), options))) ?? [];
      return found
        .filter((entry) => entry.isFile() && !entry.name.endsWith(UNFINISHED))
        .map(({ parentPath, name }) => relative(this.#folder, join(parentPath, name)).replaceAll(sep, '/'));
    });
  }

  async files(
    folder: string,
    signal: AbortSignal,
    isWanted: (name: string) => boolean = () => true,
  ): Promise<readonly StoredFile[]> {
    const files: StoredFile[] = [];
    for (const name of (await this.names(folder, signal)).filter(isWanted)) {
      const found = await this.#run(signal, () => unlessMissing(lstat(join(this.#folder, name))));
      if (found !== undefined) files.push({ name, bytes: found.size, changedAt: found.mtimeMs });
    }
    return files;
  }

  folders(signal: AbortSignal): Promise<readonly string[]> {
    return this.#run(signal, async () => {
      const found = (await unlessMissing(readdir(this.#folder, { withFileTypes: true }))) ?? [];
      return found.filter((entry) => entry.isDirectory()).map(({ name }) => name);
    });
  }

  put(name: string, bytes: Uint8Array, signal: AbortSignal): Promise<void> {
    return this.#run(signal, async () => this.#write(await this.#path(name), bytes));
  }

  create(name: string, bytes: Uint8Array, signal: AbortSignal): Promise<boolean> {
    return this.#run(signal, async () => {
      const path = await this.#path(name);
      const unfinished = `${path}.${newId()}${UNFINISHED}`;
      await this.#write(unfinished, bytes);
      try {
        // Unlike a rename it fails where the name is taken.
        await link(unfinished, path);
        await this.#settle();
        return true;
      } catch (error) {
        if (codeOf(error) === 'EEXIST') return false;
        throw error;
      } finally {
        await unlink(unfinished).catch(() => undefined);
      }
    });
  }

  move(from: string, to: string, signal: AbortSignal): Promise<boolean> {
    return this.#run(signal, async () => {
      const [source, target] = [await this.#path(from), await this.#path(to)];
      try {
        await rename(source, target);
      } catch (error) {
        if (codeOf(error) !== 'ENOENT' || !(await isThere(source))) {
          if (codeOf(error) === 'ENOENT') return false;
          throw error;
        }
        await this.#makeFolder(dirname(target));
        await rename(source, target);
      }
      this.#changed.add(dirname(target));
      return true;
    });
  }

  remove(name: string, signal: AbortSignal): Promise<void> {
    return this.#run(signal, async () => {
      const path = await this.#path(name);
      if ((await unlessMissing(unlink(path).then(() => true))) === true) this.#changed.add(dirname(path));
    });
  }

  removeFolder(folder: string, signal: AbortSignal): Promise<void> {
    return this.#run(signal, async () => rm(await this.#path(folder), { recursive: true, force: true }));
  }

  settle(signal: AbortSignal): Promise<void> {
    return this.#run(signal, () => this.#settle());
  }

  async close(): Promise<void> {}

  /** Where the file is; a link to somewhere else is refused. */
  async #path(name: string): Promise<string> {
    checkName(name);
    let path = this.#folder;
    for (const part of name.split('/')) {
      path = join(path, part);
      const found = await unlessMissing(lstat(path));
      if (found?.isSymbolicLink() === true) throw new FolderRefused('a part of the path is a symbolic link');
      if (found === undefined) break;
    }
    return join(this.#folder, name);
  }

  async #write(path: string, bytes: Uint8Array): Promise<void> {
    try {
      await this.#writeNew(path, bytes);
    } catch (error) {
      if (codeOf(error) !== 'ENOENT') throw error;
      await this.#makeFolder(dirname(path));
      await this.#writeNew(path, bytes);
    }
  }

  async #writeNew(path: string, bytes: Uint8Array): Promise<void> {
    const handle = await open(path, 'wx', 0o600);
    try {
      await handle.writeFile(bytes);
      await handle.sync();
    } catch (error) {
      await unlink(path).catch(() => undefined);
      throw error;
    } finally {
      await handle.close();
    }
    this.#changed.add(dirname(path));
  }

  async #makeFolder(path: string): Promise<void> {
    // The root may have been removed, or replaced by a link.
    for (const folder of await openFolders(this.#dataFolder, this.#parts)) this.#changed.add(folder);
    const first = await mkdir(path, { recursive: true });
    if (first === undefined) return;
    for (let made = path; made.length >= first.length; made = dirname(made)) this.#changed.add(dirname(made));
  }

  async #settle(): Promise<void> {
    const folders = [...this.#changed];
    this.#changed.clear();
    try {
      await syncFolders(folders);
    } catch (error) {
      for (const folder of folders) this.#changed.add(folder);
      // A folder that a person removed meanwhile needs no fsync.
      if (codeOf(error) !== 'ENOENT') throw error;
      for (const folder of folders) if (!(await isThere(folder))) this.#changed.delete(folder);
      await syncFolders([...this.#changed]);
      this.#changed.clear();
    }
  }

  async #run<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    if (signal.aborted) throw new Unavailable('stopped');
    try {
      if (!this.#isOpen) {
        await openFolders(this.#dataFolder, this.#parts);
        this.#isOpen = true;
      }
      return await work();
    } catch (error) {
      if (error instanceof WarehouseRefused) throw error;
      throw failedCall(classifyFolderFailure(error), error);
    }
  }
}

async function unlessMissing<T>(result: Promise<T>): Promise<T | undefined> {
  try {
    return await result;
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

async function isThere(path: string): Promise<boolean> {
  return (await unlessMissing(access(path).then(() => true))) === true;
}
