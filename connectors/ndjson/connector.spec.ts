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
import { Closed, FolderRefused } from '../failures.ts';
import { appendDurably, FolderWriter, MAX_FILE_BYTES } from './connector.ts';

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

/** Writes that end when the test releases them. */
function blockedWrites() {
  const begun: { text: string; end: (error?: Error) => void }[] = [];
  const write = (text: string) =>
    new Promise<void>((resolve, reject) => {
      begun.push({ text, end: (error) => (error === undefined ? resolve() : reject(error)) });
    });
  return { begun, write };
}

const patient = () => new AbortController().signal;
const settled = () => new Promise((resolve) => setImmediate(resolve));

test('requests during a write share the next one', async () => {
  const { begun, write } = blockedWrites();
  const writer = new FolderWriter(write);
  const appends = ['a', 'b', 'c'].map((text) => writer.append(text, patient()));
  expect(begun.map(({ text }) => text)).toEqual(['a']);
  begun[0]?.end();
  await appends[0];
  await settled();
  expect(begun.map(({ text }) => text)).toEqual(['a', 'bc']);
  begun[1]?.end();
  await Promise.all(appends);
});

test('a failed write fails its group and no other', async () => {
  const { begun, write } = blockedWrites();
  const writer = new FolderWriter(write);
  const outcomes = Promise.allSettled(['a', 'b'].map((text) => writer.append(text, patient())));
  begun[0]?.end(new Error('disk'));
  await settled();
  begun[1]?.end();
  expect((await outcomes).map(({ status }) => status)).toEqual(['rejected', 'fulfilled']);
});

test('a cancelled request in the queue is not written, and one in a write under way does not delay it', async () => {
  const { begun, write } = blockedWrites();
  const writer = new FolderWriter(write);
  const leaving = new AbortController();
  const outcomes = Promise.allSettled(
    ['a', 'b'].map((text) => writer.append(text, leaving.signal)).concat(writer.append('c', patient())),
  );
  leaving.abort(new Error('left'));
  begun[0]?.end();
  await settled();
  expect(begun.map(({ text }) => text)).toEqual(['a', 'c']);
  begun[1]?.end();
  expect((await outcomes).map(({ status }) => status)).toEqual(['rejected', 'rejected', 'fulfilled']);
});

test('a long queue is written piece by piece', async () => {
  const { begun, write } = blockedWrites();
  const writer = new FolderWriter(write);
  const megabytes = 'x'.repeat(5 * 1_024 * 1_024);
  const appends = ['first', megabytes, megabytes].map((text) => writer.append(text, patient()));
  for (let n = 0; n < 3; n++) {
    begun[n]?.end();
    await settled();
  }
  await Promise.all(appends);
  expect(begun.map(({ text }) => text.length)).toEqual([5, megabytes.length, megabytes.length]);
});

test('closing waits for accepted requests and accepts no more', async () => {
  const { begun, write } = blockedWrites();
  const writer = new FolderWriter(write);
  const append = writer.append('a', patient());
  const closing = writer.close();
  await expect(writer.append('b', patient())).rejects.toThrow(Closed);
  begun[0]?.end();
  await Promise.all([append, closing, writer.close()]);
  expect(begun).toHaveLength(1);
});
