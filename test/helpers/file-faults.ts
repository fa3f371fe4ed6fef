import { AsyncLocalStorage } from 'node:async_hooks';
import files from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';

/** Calls that change a file system. */
const CHANGES = ['link', 'mkdir', 'open', 'rename', 'rm', 'unlink'] as const;
export type FileChange = (typeof CHANGES)[number];

/** What happens around the changes of files that a piece of work makes. Each may throw, or never resolve as if it were killed. */
export interface FileFaults {
  before?(call: FileChange, path: string): void | Promise<void>;
  /** The change is made. */
  after?(call: FileChange, path: string): void | Promise<void>;
}

const scope = new AsyncLocalStorage<FileFaults>();
let isInstalled = false;

/** Runs work whose changes of files, and those of all that it calls, meet these faults. */
export function withFileFaults<T>(faults: FileFaults, work: () => T): T {
  if (!isInstalled) install();
  isInstalled = true;
  return scope.run(faults, work);
}

function install(): void {
  const patched = files as unknown as Record<FileChange, (...args: unknown[]) => Promise<unknown>>;
  for (const call of CHANGES) {
    const original = patched[call];
    patched[call] = async (...args) => {
      const faults = scope.getStore();
      await faults?.before?.(call, String(args[0]));
      const result = await original(...args);
      await faults?.after?.(call, String(args[0]));
      return result;
    };
  }
  syncBuiltinESMExports();
}

export function fileError(code: string): Error {
  return Object.assign(new Error(`${code}: a fault of the test`), { code });
}

/** Faults of a process that is killed before its n-th change of a file: that call and all later ones never return. */
export function killedBefore(n: number): FileFaults & { readonly died: Promise<void> } {
  const { promise: died, resolve } = Promise.withResolvers<void>();
  let left = n;
  return {
    died,
    before() {
      left -= 1;
      if (left > 0) return undefined;
      resolve();
      return new Promise<void>(() => undefined);
    },
  };
}
