import {
  appendFile,
  mkdir,
  mkdtemp,
  open,
  readdir,
  readFile,
  rm,
  symlink,
  truncate,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { FolderRefused } from '../failures.ts';
import { appendDurably, dayOf, fileName, latestNumber, MAX_FILE_BYTES } from './files.ts';

const NOON = Date.parse('2024-02-29T12:00:00Z');
const FIRST = '2024-02-29-000001.ndjson';

let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'tributary-ndjson-'));
});
afterEach(() => rm(root, { recursive: true, force: true }));

const append = (lines: string, now = NOON) => appendDurably(root, ['a', 'b'], lines, now);
const path = (name: string) => join(root, 'a', 'b', name);
const contents = (name: string) => readFile(path(name), 'utf8');

test('appends to the file of the day', async () => {
  await append('1\n');
  await append('2\n3\n');
  await append('4\n', NOON + 86_400_000);
  expect(await readdir(join(root, 'a', 'b'))).toEqual([FIRST, '2024-03-01-000001.ndjson']);
  expect(await contents(FIRST)).toBe('1\n2\n3\n');
});

test('answers after an fsync of the file, and of the folders above a new one', async () => {
  const handle = await open(root);
  const sync = vi.spyOn(Object.getPrototypeOf(handle), 'sync');
  try {
    await append('1\n');
    expect(sync).toHaveBeenCalledTimes(4);
    await append('2\n');
    expect(sync).toHaveBeenCalledTimes(5);
  } finally {
    sync.mockRestore();
    await handle.close();
  }
});

test('a file that would pass its size is followed by the next', async () => {
  await append('1\n');
  await truncate(path(FIRST), MAX_FILE_BYTES - 3);
  await appendFile(path(FIRST), '\n');
  await append('2\n');
  await append('3\n');
  expect(await readdir(join(root, 'a', 'b'))).toEqual([FIRST, '2024-02-29-000002.ndjson']);
  expect(await contents('2024-02-29-000002.ndjson')).toBe('3\n');
});

test('a line torn by a crash is sealed, and the next begins on a line of its own', async () => {
  await append('{"n":1}\n');
  await appendFile(path(FIRST), '{"n":2,"half');
  await append('{"n":2}\n');
  await append('{"n":3}\n');
  expect(await contents(FIRST)).toBe('{"n":1}\n{"n":2,"half\n{"n":2}\n{"n":3}\n');
});

test('a file that a reader removed is created again', async () => {
  await append('1\n');
  await rm(join(root, 'a'), { recursive: true });
  await append('2\n');
  expect(await contents(FIRST)).toBe('2\n');
});

test('a symbolic link is followed neither as a folder nor as a file', async () => {
  const outside = await mkdtemp(join(tmpdir(), 'tributary-outside-'));
  try {
    await mkdir(join(root, 'a'));
    await symlink(outside, join(root, 'a', 'b'));
    await expect(append('1\n')).rejects.toThrow(FolderRefused);
    await rm(join(root, 'a', 'b'));
    await mkdir(join(root, 'a', 'b'));
    await writeFile(join(outside, 'target'), '');
    await symlink(join(outside, 'target'), path(FIRST));
    await expect(append('1\n')).rejects.toThrow(FolderRefused);
    await rm(join(root, 'a'), { recursive: true });
    await symlink(outside, join(root, 'a'));
    await expect(append('1\n')).rejects.toThrow(FolderRefused);
    expect(await readdir(outside)).toEqual(['target']);
    expect(await readFile(join(outside, 'target'), 'utf8')).toBe('');
  } finally {
    await rm(outside, { recursive: true, force: true });
  }
});

test('a folder in the place of the file is an error of the file system', async () => {
  await mkdir(path(FIRST), { recursive: true });
  await expect(append('1\n')).rejects.toMatchObject({ code: 'EISDIR' });
});

test('names sort in the order of writing', () => {
  const names = [
    fileName('2024-02-29', 1),
    fileName('2024-02-29', 2),
    fileName('2024-02-29', 10),
    fileName('2024-03-01', 1),
  ];
  expect(names).toEqual([...names].sort());
  expect(names[0]).toBe('2024-02-29-000001.ndjson');
});

test('a day ends at midnight UTC', () => {
  expect(dayOf(Date.parse('2024-02-29T23:59:59.999Z'))).toBe('2024-02-29');
  expect(dayOf(Date.parse('2024-03-01T00:00:00Z'))).toBe('2024-03-01');
});

test('the latest number is that of the day, whatever else lies there', () => {
  const names = [
    '2024-02-28-000009.ndjson',
    '2024-02-29-000002.ndjson',
    '2024-02-29-000010.ndjson',
    '2024-02-29-11.txt',
  ];
  expect(latestNumber(names, '2024-02-29')).toBe(10);
  expect(latestNumber(names, '2024-03-01')).toBe(1);
});
