import { expect, test } from 'vitest';
import { Closed, FolderRefused, Stopped, TimedOut } from './failures.ts';
import { classifyFolderFailure, foldersOf } from './folder.ts';

test.each(['orders', 'a/b/c', 'Team_1/2024-01.v2'])('the folder %s is taken', (folder) => {
  expect(foldersOf('ndjson', 'w1', folder)).toEqual(['ndjson', 'w1', ...folder.split('/')]);
});

test.each([
  ...'. .. ../x a/../b a/.. /etc a//b a/ a\\b ..\\b C:\\x a\0b .hidden a/.git a\n %2e%2e/x'.split(' '),
  ...'1/2/3/4/5/6/7/8/9'.split(' '),
  '',
  'a b',
])('the folder "%s" is refused', (folder) => {
  expect(foldersOf('ndjson', 'w1', folder)).toBeUndefined();
});

test('every workspace has a folder of its own, and its id cannot lead elsewhere', () => {
  expect(foldersOf('ndjson', 'w2', 'a/b')).toEqual(['ndjson', 'w2', 'a', 'b']);
  for (const id of ['..', '../x', 'a/b', '', '.x']) expect(foldersOf('ndjson', id, 'a')).toBeUndefined();
});

test.each([
  ['ENOSPC', 'disk full'],
  ['EDQUOT', 'disk full'],
  ['EROFS', 'the disk is read-only'],
  ['EACCES', 'no permission to write'],
  ['ENOTDIR', 'a part of the folder is no folder'],
  ['EIO', 'write failed (EIO)'],
])('%s is tried again: %s', (code, reason) => {
  const error = Object.assign(new Error(`${code}: /srv/data/ndjson/w/x`), { code });
  expect(classifyFolderFailure(error)).toEqual({ outcome: 'retry', reason });
});

test('a refused folder is dead, an unfinished append is retried', () => {
  expect(classifyFolderFailure(new FolderRefused('x'))).toEqual({
    outcome: 'dead',
    reason: 'folder not allowed',
  });
  expect(classifyFolderFailure(new TimedOut('x'))).toEqual({ outcome: 'retry', reason: 'timed out' });
  expect(classifyFolderFailure(new Stopped('x'))).toEqual({ outcome: 'retry', reason: 'stopped' });
  expect(classifyFolderFailure(new Closed('x'))).toEqual({ outcome: 'retry', reason: 'stopped' });
});

test('an error without a code is not an error of the file system', () => {
  expect(classifyFolderFailure(new TypeError('our mistake'))).toBeUndefined();
});
