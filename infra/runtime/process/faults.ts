import { TributaryError } from '@tributary/core';
import { FolderInUse } from '../config/folder-lock.ts';
import { AddressUnavailable } from '../server/server.ts';
import { StagesFailed } from '../stages/thread.ts';
import { NotStarted } from './patience.ts';

/**
 * Faults of the place a process runs in, e.g. a port that is taken, topics that were laid out otherwise, a Redis that
 * forgets: a sentence says what to do, a stack would not.
 */
export function isForThePerson(error: unknown): error is Error {
  return [TributaryError, FolderInUse, AddressUnavailable, StagesFailed, NotStarted].some(
    (kind) => error instanceof kind,
  );
}
