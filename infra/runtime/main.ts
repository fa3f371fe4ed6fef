#!/usr/bin/env -S node --disable-warning=ExperimentalWarning --disable-warning=TimeoutNegativeWarning
import { keepCompiled } from './process/compile-cache.ts';

// The process and its threads create files for its own user alone, below whatever mode the code names.
process.umask(0o077);
keepCompiled();
// Loaded after it: what is imported above is compiled before any of this runs.
const { runCli } = await import('./cli.ts');

// Exits although something may still run: a start that failed half-way has left threads behind.
process.exit(await runCli(process.argv.slice(2), process.env));
