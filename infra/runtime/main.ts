#!/usr/bin/env -S node --disable-warning=ExperimentalWarning
import { runCli } from './cli.ts';

process.exitCode = await runCli(process.argv.slice(2), process.env);
