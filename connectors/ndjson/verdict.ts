import type { DeliveryResult } from '@tributary/core';
import { Closed, codeOf, FolderRefused, Stopped, TimedOut } from '../errors.ts';

const REASONS = new Map([
  ['ENOSPC', 'disk full'],
  ['EDQUOT', 'disk full'],
  ['EROFS', 'the disk is read-only'],
  ['EACCES', 'no permission to write'],
  ['EPERM', 'no permission to write'],
  ['EMFILE', 'too many open files'],
  ['ENFILE', 'too many open files'],
  ['ENOTDIR', 'a part of the folder is no folder'],
]);

/**
 * What a failed append means. Made from codes alone, since messages of the file system hold paths. Undefined for an
 * error that has none: it is not the file system's.
 */
export function verdictOfFailure(error: unknown): DeliveryResult | undefined {
  if (error instanceof FolderRefused) return { outcome: 'dead', reason: 'folder not allowed' };
  if (error instanceof TimedOut) return { outcome: 'retry', reason: 'timed out' };
  if (error instanceof Stopped || error instanceof Closed) return { outcome: 'retry', reason: 'stopped' };
  const code = codeOf(error);
  if (code === undefined) return undefined;
  return { outcome: 'retry', reason: REASONS.get(code) ?? `write failed (${code})` };
}
