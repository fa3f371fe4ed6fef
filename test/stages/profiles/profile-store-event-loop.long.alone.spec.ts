// Runs alone in the long form: it measures the longest turns of the event loop.
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { NO_LOGGER, NO_METRICS, type ProfileWrite, Unavailable } from '@tributary/core';
import { openSqliteProfileStore } from '@tributary/infra';
import { expect, it, onTestFinished } from 'vitest';
import { temporaryFolder } from '../../helpers/folder.ts';

const write = (cookies: readonly string[]): ProfileWrite => ({
  org: 1,
  region: 'eu',
  identities: cookies.map((value) => ({ type: 'cookie', value })),
  attributes: [{ path: ['d', 'n'], value: cookies.join() }],
  preferences: [],
  consents: [],
  linking: 'merge',
});

it('the SQLite profiles block no event loop while they wait for another writer or read much', async () => {
  const folder = await temporaryFolder();
  const store = await openSqliteProfileStore({
    folder: folder.path,
    clock: Date.now,
    retentionMs: 1_000_000,
    publish: async () => {},
    logger: NO_LOGGER,
    metrics: NO_METRICS,
    busyTimeoutMs: 50,
    forgetEveryMs: false,
  });
  onTestFinished(async () => {
    await store.close();
    await folder.remove();
  });
  const lock = new DatabaseSync(join(folder.path, 'profiles.db'), { timeout: 10_000 });
  const many = Array.from({ length: 400 }, (_, n) => `c-${n}`);
  await Promise.all(many.map((cookie) => store.upsert(write([cookie]))));
  const longestTurn = async () => {
    let [longest, running] = [0, true];
    const watching = (async () => {
      for (let last = performance.now(); running; last = performance.now()) {
        await nextTurn();
        longest = Math.max(longest, performance.now() - last);
      }
    })();
    lock.exec('BEGIN IMMEDIATE');
    await expect(store.upsert(write(['b']))).rejects.toThrow(Unavailable);
    lock.exec('ROLLBACK');
    const found = await store.search({
      org: 1,
      regions: ['eu'],
      identities: write(many).identities,
      ucids: [],
    });
    running = false;
    await watching;
    expect(found).toHaveLength(400);
    return longest;
  };
  // The least of several: code that blocks the event loop does so each time, a busy machine does not.
  const turns: number[] = [];
  for (let round = 0; round < 5; round++) turns.push(await longestTurn());
  lock.close();
  expect(Math.min(...turns)).toBeLessThan(45);
});
