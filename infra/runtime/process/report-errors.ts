import { TributaryError } from '@tributary/core';
import { AddressUnavailable } from '../server/server.ts';
import { StagesFailed } from '../stages/thread.ts';
import { NotStarted } from './await-engines.ts';
import { FolderInUse } from './folder-lock.ts';

/**
 * Faults of the place a process runs in, e.g. a port that is taken, topics that were laid out otherwise, a Redis that
 * forgets: the message says what to do, a stack would not.
 */
const OPERATOR_ERRORS = [TributaryError, FolderInUse, AddressUnavailable, StagesFailed, NotStarted];

/** Runs a command; reports an error that the operator can mend on standard error, with exit code 1. */
export async function reportErrors(command: string, run: () => Promise<number>): Promise<number> {
  try {
    return await run();
  } catch (error) {
    if (!(error instanceof Error) || !OPERATOR_ERRORS.some((kind) => error instanceof kind)) throw error;
    process.stderr.write(`tributary ${command}: ${error.message}\n`);
    return 1;
  }
}
