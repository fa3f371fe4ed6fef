import { expect, test } from 'vitest';
import { Closed, FolderRefused, Stopped, TimedOut } from '../failures.ts';
import { classifyFailure } from './connector.ts';

test.each([
  ['ENOSPC', 'disk full'],
  ['EDQUOT', 'disk full'],
  ['EROFS', 'the disk is read-only'],
  ['EACCES', 'no permission to write'],
  ['ENOTDIR', 'a part of the folder is no folder'],
  ['EIO', 'write failed (EIO)'],
])('%s is tried again: %s', (code, reason) => {
  const error = Object.assign(new Error(`${code}: /srv/data/ndjson/w/x`), { code });
  expect(classifyFailure(error)).toEqual({ outcome: 'retry', reason });
});

test('a refused folder is dead, an unfinished append is retried', () => {
  expect(classifyFailure(new FolderRefused('x'))).toEqual({ outcome: 'dead', reason: 'folder not allowed' });
  expect(classifyFailure(new TimedOut('x'))).toEqual({ outcome: 'retry', reason: 'timed out' });
  expect(classifyFailure(new Stopped('x'))).toEqual({ outcome: 'retry', reason: 'stopped' });
  expect(classifyFailure(new Closed('x'))).toEqual({ outcome: 'retry', reason: 'stopped' });
});

test('an error without a code is not an error of the file system', () => {
  expect(classifyFailure(new TypeError('our mistake'))).toBeUndefined();
});
