import { WarehouseRefused } from '@tributary/core';

/** A file of a lake. */
export interface StoredFile {
  /** Relative to the root of the lake, with `/` between its parts. */
  readonly name: string;
  readonly bytes: number;
  /** Epoch ms. */
  readonly changedAt: number;
}

/**
 * The files of one lake, in a folder or in a bucket.
 *
 * Promises:
 * - A reader sees a file whole or not at all, also one that is replaced.
 * - `create` is exclusive and durable when it resolves; what came before it is durable once `settle` has resolved.
 * - `move` is done once: where two processes move the same file, one gets `true`.
 *
 * Errors: `Unavailable` (also where the signal is aborted), `WarehouseRefused` (also for a name that leads out of the lake).
 */
export interface LakeStore {
  /** Where it is, for other programs: `s3://<bucket>/<prefix>`, `file:/<folder>`. */
  readonly root: string;
  /** How long one `move` may go on after another process has made the same one, ms: then it replaces `to` once more. */
  readonly lateMoveMs: number;
  read(name: string, signal: AbortSignal): Promise<Uint8Array | undefined>;
  /** Undefined where it is not there. */
  size(name: string, signal: AbortSignal): Promise<number | undefined>;
  /** The names of all files below a folder, in any order. */
  names(folder: string, signal: AbortSignal): Promise<readonly string[]>;
  /** All files below a folder, or those whose names are wanted. */
  files(
    folder: string,
    signal: AbortSignal,
    isWanted?: (name: string) => boolean,
  ): Promise<readonly StoredFile[]>;
  /** The names of the folders right below the root. */
  folders(signal: AbortSignal): Promise<readonly string[]>;
  /** Writes a file whose name is new. */
  put(name: string, bytes: Uint8Array, signal: AbortSignal): Promise<void>;
  /** False where the name is taken. */
  create(name: string, bytes: Uint8Array, signal: AbortSignal): Promise<boolean>;
  /** Replaces `to`. False where `from` is not there. */
  move(from: string, to: string, signal: AbortSignal): Promise<boolean>;
  /** One that is not there is removed. */
  remove(name: string, signal: AbortSignal): Promise<void>;
  removeFolder(folder: string, signal: AbortSignal): Promise<void>;
  settle(signal: AbortSignal): Promise<void>;
  close(): Promise<void>;
}

const OUTSIDE = new Set(['', '.', '..']);

export function isInLake(name: string): boolean {
  return !name.split('/').some((part) => OUTSIDE.has(part));
}

/** Names come from catalogs as well, and those may be servers of anybody: none leads out of the lake, or is a second one of a file. */
export function checkName(name: string): void {
  if (!isInLake(name)) throw new WarehouseRefused('the catalog names a file that is not in the lake');
}

/** Files of a change that are written at a time. */
const WRITTEN_AT_ONCE = 8;

/** Writes files while those behind them are encoded. */
export class FileWrites {
  readonly #store: LakeStore;
  readonly #writing: Promise<void>[] = [];

  constructor(store: LakeStore) {
    this.#store = store;
  }

  async put(name: string, bytes: Uint8Array, signal: AbortSignal): Promise<void> {
    const writing = this.#store.put(name, bytes, signal);
    this.#writing.push(writing);
    // `written` rejects with it.
    writing.catch(() => undefined);
    if (this.#writing.length > WRITTEN_AT_ONCE) await this.#writing.shift();
  }

  /** Resolves once all files are written. */
  async written(): Promise<void> {
    await Promise.all(this.#writing);
  }

  /** Resolves once none is being written. */
  async ended(): Promise<void> {
    await Promise.allSettled(this.#writing);
  }
}
