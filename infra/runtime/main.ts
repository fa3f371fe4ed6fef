#!/usr/bin/env -S node --disable-warning=ExperimentalWarning --disable-warning=TimeoutNegativeWarning
import { runCli } from './cli.ts';

// Exits although something may still run: a start that failed half-way has threads nobody waits for.
process.exit(await runCli(process.argv.slice(2), process.env));
