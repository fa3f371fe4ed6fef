import { Unavailable } from '@tributary/core';
import { afterEach, expect, it } from 'vitest';
import { signal, TestLoader, track } from '../suite/harness.ts';
import { profileChange } from '../suite/profiles.ts';
import { bucketHarness } from './bucket-harness.ts';

let harness: Awaited<ReturnType<typeof bucketHarness>>;
afterEach(() => harness.close());

it('a lake in a bucket has each row once, also after a lost answer, and widens its columns', async () => {
  harness = await bucketHarness();
  const loader = new TestLoader(harness.open());
  expect(await loader.warehouse.test(signal)).toEqual({ ok: true });
  await loader.load([track('Order', { n: 1 })], {
    changes: [profileChange('U1', 1, { plan: 'free' }, ['ann'])],
  });
  const events = [track('Order', { n: 'text' })];
  harness.loseNextCommit();
  await expect(loader.load(events)).rejects.toThrow(Unavailable);
  // The change of the table: the entry that was created is published by the next call.
  await loader.load(events);
  expect(await harness.type('order', 'n')).toBe('text');
  harness.loseNextCommit();
  const more = [track('Order', { n: 2 })];
  await expect(loader.load(more)).rejects.toThrow(Unavailable);
  expect(await loader.warehouse.newest('live', signal)).toMatchObject({ seq: 3 });
  expect((await loader.load(more)).result).toMatchObject({ inserted: { order: 0 } });
  expect((await harness.rows('order')).map(({ n }) => n).sort()).toEqual(['1', '2', 'text']);
  expect(await harness.rows('users')).toEqual([expect.objectContaining({ ucid: 'U1', plan: 'free' })]);
});

it('a service without conditional writes is told by the connection test', async () => {
  harness = await bucketHarness({ knowsConditions: false });
  expect(await harness.open().test(signal)).toEqual({
    ok: false,
    reason: 'files cannot be created exclusively there',
  });
});
