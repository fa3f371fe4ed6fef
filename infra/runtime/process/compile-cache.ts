import { constants, enableCompileCache } from 'node:module';
import { fileURLToPath } from 'node:url';

/** Beside the packages: write access there already allows to change the program. Elsewhere others could put code into it. */
const FOLDER = fileURLToPath(new URL('../../../node_modules/.cache/compiled', import.meta.url));

/**
 * Keeps what Node compiles of the program for the next start, which takes half the time then, and for the threads and
 * processes of this one. Node writes it when a process ends in good order, and compiles anew what has changed. Where
 * the folder cannot be written all goes on as without it; `NODE_COMPILE_CACHE` names another,
 * `NODE_DISABLE_COMPILE_CACHE=1` none.
 */
export function keepCompiled(): void {
  const { status } = enableCompileCache(FOLDER);
  if (status === constants.compileCacheStatus.ENABLED) process.env.NODE_COMPILE_CACHE = FOLDER;
}
