#!/usr/bin/env -S node --disable-warning=ExperimentalWarning --disable-warning=TimeoutNegativeWarning
import { constants, enableCompileCache } from 'node:module';
import { fileURLToPath } from 'node:url';
import { setFlagsFromString } from 'node:v8';

/**
 * Beside the packages: a user who may write there can change the program anyway. Elsewhere other users could put code
 * into the cache.
 */
const COMPILE_CACHE = fileURLToPath(new URL('../../node_modules/.cache/compiled', import.meta.url));

/**
 * Caches what Node compiles, for later starts, which take half the time, and for threads and child processes. Node writes
 * the cache when a process ends in good order, and compiles changed files again. It is optional: nothing is cached where
 * the folder is not writable. `NODE_COMPILE_CACHE` names another folder, `NODE_DISABLE_COMPILE_CACHE=1` switches it off.
 */
function useCompileCache(): void {
  const { status } = enableCompileCache(COMPILE_CACHE);
  if (status === constants.compileCacheStatus.ENABLED) process.env.NODE_COMPILE_CACHE = COMPILE_CACHE;
}

/**
 * V8 lets a heap grow to four times of what lives in it before it looks for garbage, where the machine has memory. Half as
 * much more as lives is enough for the stages, and takes a fourth off the memory of a loaded process for no processor time
 * that could be measured (docs/decisions/0050-reading-a-topic-once.md).
 */
function boundHeapGrowth(): void {
  setFlagsFromString('--heap-growing-percent=50');
}

// Files are readable and writable by the process's own user only, whatever mode the code passes.
process.umask(0o077);
boundHeapGrowth();
useCompileCache();
// Imported after the cache is in use: static imports are compiled before any code of this file runs.
const { runCli } = await import('./cli.ts');

// Exits explicitly, because a start that failed halfway may have left threads running.
process.exit(await runCli(process.argv.slice(2), process.env));
