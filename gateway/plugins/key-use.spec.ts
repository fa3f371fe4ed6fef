import { type ApiKey, type KeyUse, NO_LOGGER, Unavailable } from '@tributary/core';
import { expect, it } from 'vitest';
import { createKeyUseNotes } from './key-use.ts';

const apiKey = (id: string) => ({ kind: 'api_key', key: { id } as ApiKey }) as const;

function notes(touch: (use: KeyUse) => Promise<void>) {
  let now = 1_000_000;
  const note = createKeyUseNotes({ counters: { touch } as never, clock: () => now, logger: NO_LOGGER });
  return { note, pass: (ms: number) => (now += ms) };
}

it('notes a key at most once a minute, each key by itself', async () => {
  const uses: KeyUse[] = [];
  const { note, pass } = notes(async (use) => void uses.push(use));
  note(apiKey('a'));
  note(apiKey('a'));
  note(apiKey('b'));
  pass(59_999);
  note(apiKey('a'));
  pass(1);
  note(apiKey('a'));
  expect(uses).toEqual([
    { keyId: 'a', at: 1_000_000 },
    { keyId: 'b', at: 1_000_000 },
    { keyId: 'a', at: 1_060_000 },
  ]);
});

it('never fails, also where the counters do', async () => {
  const asynchronous = notes(() => Promise.reject(new Unavailable('down')));
  const synchronous = notes(() => {
    throw new Error('closed');
  });
  expect(() => asynchronous.note(apiKey('a'))).not.toThrow();
  expect(() => synchronous.note(apiKey('a'))).not.toThrow();
});
