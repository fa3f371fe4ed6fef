#!/usr/bin/env -S node --disable-warning=ExperimentalWarning --disable-warning=TimeoutNegativeWarning
import { runCli } from './cli.ts';

// Files are readable and writable by the process's own user only, whatever mode the code passes.
process.umask(0o077);

// Exits explicitly, because a start that failed halfway may have left threads running.
process.exit(await runCli(process.argv.slice(2), process.env));
