import { expect, test } from 'vitest';
import { Closed } from '../failures.ts';
import { FolderWriter } from './folder-writer.ts';

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
