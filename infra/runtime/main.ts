#!/usr/bin/env -S node --disable-warning=ExperimentalWarning --disable-warning=TimeoutNegativeWarning
import { setFlagsFromString } from 'node:v8';
import { runCli } from './cli.ts';

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

// Exits explicitly, because a start that failed halfway may have left threads running.
process.exit(await runCli(process.argv.slice(2), process.env));
