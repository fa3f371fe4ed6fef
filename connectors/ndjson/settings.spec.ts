import { expect, test } from 'vitest';
import { foldersOf, readSettings } from './settings.ts';

test.each(['orders', 'a/b/c', 'Team_1/2024-01.v2'])('the folder %s is taken', (folder) => {
  expect(readSettings({ folder })).toEqual({ parts: folder.split('/') });
});

test.each([
  '',
  '.',
  '..',
  '../x',
  'a/../b',
  'a/..',
  '/etc',
  'a//b',
  'a/',
  'a\\b',
  '..\\b',
  'C:\\x',
  'a\0b',
  '.hidden',
  'a/.git',
  'a b',
  'a\n',
  '%2e%2e/x',
  '1/2/3/4/5/6/7/8/9',
])('the folder "%s" is refused', (folder) => {
  expect(readSettings({ folder })).toBeUndefined();
});

test('every workspace has a folder of its own, and its id cannot lead elsewhere', () => {
  expect(foldersOf('w1', { parts: ['a', 'b'] })).toEqual(['ndjson', 'w1', 'a', 'b']);
  for (const id of ['..', '../x', 'a/b', '', '.x']) expect(foldersOf(id, { parts: ['a'] })).toBeUndefined();
});
