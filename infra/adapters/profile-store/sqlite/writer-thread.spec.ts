import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { NO_LOGGER, NO_METRICS, type ProfileStore, type ProfileWrite } from '@tributary/core';
import { expect, it, onTestFinished } from 'vitest';
import { openSqliteProfileStore } from './profile-store.ts';

const BUSY = 1;
const QUIET = 2;

async function openTwo(): Promise<readonly [ProfileStore, ProfileStore]> {
  const folder = mkdtempSync(join(tmpdir(), 'tributary-'));
  const open = () =>
    openSqliteProfileStore({
      folder,
      clock: Date.now,
      retentionMs: 1_000_000,
      publish: async () => {},
      logger: NO_LOGGER,
      metrics: NO_METRICS,
    });
  const stores = [await open(), await open()] as const;
  onTestFinished(async () => {
    for (const store of stores) await store.close();
    rmSync(folder, { recursive: true, force: true });
  });
  return stores;
}

const write = (org: number, user: string, attributes: ProfileWrite['attributes']): ProfileWrite => ({
  org,
  region: 'eu',
  identities: [{ type: 'user_id', value: user }],
  attributes,
  preferences: [],
  consents: [],
  linking: 'merge',
});

const many = Array.from({ length: 1_900 }, (_, n) => ({ path: ['d', `name-${n}`], value: 'x'.repeat(30) }));

it.each(['one store', 'two stores'])(
  'the backlog of one organization on a large profile held the writes of others, through %s',
  async (through) => {
    const [first, second] = await openTwo();
    const other = through === 'one store' ? first : second;
    await first.upsert(write(BUSY, 'large', many));
    await other.upsert(write(QUIET, 'q', []));
    const order: string[] = [];
    // All at once: without turns the quick write is the last one.
    const backlog = Array.from({ length: 150 }, (_, n) =>
      first
        .upsert(write(BUSY, 'large', [{ path: ['d', 'name-0'], value: n }]))
        .then(() => void order.push('busy')),
    );
    await new Promise((resolve) => setTimeout(resolve, 30));
    for (let n = 0; n < 3; n++)
      await other.upsert(write(QUIET, 'q', [{ path: ['d', 'n'], value: n }])).then(() => order.push('quiet'));
    await Promise.all(backlog);
    expect(order.lastIndexOf('quiet')).toBeLessThan(order.length - 50);
  },
);

it('the answers of a group on a large profile were read in one turn of the thread', async () => {
  const [store] = await openTwo();
  await store.upsert(write(BUSY, 'large', many));
  let [turn, isOver] = [0, false];
  const count = () => {
    turn += 1;
    if (!isOver) setImmediate(count);
  };
  count();
  const answered = await Promise.all(
    Array.from({ length: 20 }, (_, n) =>
      store.upsert(write(BUSY, 'large', [{ path: ['d', 'name-0'], value: n }])).then(() => turn),
    ),
  );
  isOver = true;
  expect(new Set(answered).size).toBe(20);
});
