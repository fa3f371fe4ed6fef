import { type ApiKey, type KeyUse, NO_LOGGER, Unavailable } from '@tributary/core';
import { expect, it } from 'vitest';
import { createKeyUseNotes } from './authenticate.ts';

const apiKey = (id: string) => ({ kind: 'api_key', key: { id } as ApiKey }) as const;
const START = 1_000_000;

function notes(touch: (use: KeyUse) => Promise<void>) {
  let now = START;
  const note = createKeyUseNotes({ counters: { touch } as never, clock: () => now, logger: NO_LOGGER });
  return { note: (id: string) => note(apiKey(id)), pass: (ms: number) => (now += ms) };
}

/** Resolves after all pending promise callbacks. */
const settled = () => new Promise((resolve) => setImmediate(resolve));

it('notes a key at most once a minute, each key by itself', async () => {
  const uses: KeyUse[] = [];
  const { note, pass } = notes(async (use) => void uses.push(use));
  for (const id of ['a', 'a', 'b']) {
    note(id);
    await settled();
  }
  pass(59_999);
  note('a');
  await settled();
  pass(1);
  note('a');
  await settled();
  expect(uses).toEqual([
    { keyId: 'a', at: START },
    { keyId: 'b', at: START },
    { keyId: 'a', at: START + 60_000 },
  ]);
});

it('has one write under way at most, and forgets no key meanwhile', async () => {
  const uses: string[] = [];
  const answers: (() => void)[] = [];
  const { note } = notes(({ keyId }) => {
    uses.push(keyId);
    return new Promise((resolve) => answers.push(resolve));
  });
  for (const id of ['a', 'b', 'a', 'c', 'b']) note(id);
  for (const sofar of [['a'], ['a', 'b'], ['a', 'b', 'c'], ['a', 'b', 'c']]) {
    await settled();
    expect(uses).toEqual(sofar);
    answers.shift()?.();
  }
});

it.each([
  ['rejects', () => Promise.reject(new Unavailable('busy'))],
  [
    'throws',
    () => {
      throw new Error('closed');
    },
  ],
])('counts a use as noted only once it is: a write that %s is retried, after a pause', async (_, fail) => {
  const uses: KeyUse[] = [];
  let down = true;
  const { note, pass } = notes(async (use) => {
    uses.push(use);
    if (down) await fail();
  });
  const tried = async (id: string) => {
    uses.length = 0;
    note(id);
    await settled();
    return [...uses];
  };
  expect(await tried('a')).toEqual([{ keyId: 'a', at: START }]);
  expect(await tried('a')).toEqual([]);
  pass(4_999);
  expect(await tried('b')).toEqual([]);
  pass(1);
  expect(await tried('b')).toHaveLength(1);
  pass(5_000);
  down = false;
  expect(await tried('c')).toEqual([
    { keyId: 'a', at: START },
    { keyId: 'b', at: START + 5_000 },
    { keyId: 'c', at: START + 10_000 },
  ]);
  expect(await tried('a')).toEqual([]);
});
