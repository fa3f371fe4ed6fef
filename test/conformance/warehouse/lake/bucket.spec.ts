import { createServer } from 'node:http';
import { Unavailable } from '@tributary/core';
import { describe, expect, it, onTestFinished } from 'vitest';
import { onLoopback } from '../../../helpers/on-loopback.ts';
import { TIMEOUT_MS } from '../../connector/suite/harness.ts';
import { loadersOf, signal, TestLoader, track } from '../suite/harness.ts';
import { profileChange } from '../suite/profiles.ts';
import { bucketHarness } from './bucket-harness.ts';
import { startFakeCatalog } from './iceberg/fake-catalog.ts';

it('a lake in a bucket has each row once, also after a lost answer, and widens its columns', async () => {
  const harness = await bucketHarness();
  onTestFinished(() => harness.close());
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

it('tables of Iceberg in a bucket have each row once, and lose those of a person', async () => {
  const catalog = await startFakeCatalog();
  onTestFinished(() => catalog.close());
  const more = {
    format: 'iceberg',
    catalog_url: catalog.url,
    catalog_client_id: 'loader',
    catalog_client_secret: 'its-secret',
  };
  const harness = await bucketHarness({ more });
  onTestFinished(() => harness.close());
  const loader = new TestLoader(harness.open());
  expect(await loader.warehouse.test(signal)).toEqual({ ok: true });
  const events = [track('Order', { n: 1 }, { user_id: 'ann' }), track('Order', { n: 'text' })];
  for (const event of events) await loader.load([event]);
  expect((await loader.load(events)).result).toMatchObject({ inserted: { order: 0 } });
  const people = { user_ids: ['ann'], anonymous_ids: [], ucids: [] };
  expect(await loader.warehouse.delete(people, signal)).toMatchObject({ order: 1, tracks: 1 });
  expect((await catalog.table('tributary', 'order'))?.snapshots).toEqual([
    expect.objectContaining({
      'manifest-list': expect.stringMatching(/^s3:\/\/customer-lake\/tributary\/tests\/order-/),
      summary: expect.objectContaining({ 'total-records': '1' }),
    }),
  ]);
});

it('a service without conditional writes is told by the connection test', async () => {
  const harness = await bucketHarness({ knowsConditions: false });
  onTestFinished(() => harness.close());
  expect(await harness.open().test(signal)).toEqual({
    ok: false,
    reason: 'files cannot be created exclusively there',
  });
});

describe('the service of a bucket', () => {
  const settings = {
    region: 'eu-central-1',
    bucket: 'customer-lake',
    prefix: 'tributary',
    path_style: true,
    access_key_id: 'key-id',
    secret_access_key: 'secret-of-the-key',
  };
  const tested = async (endpoint: string, egressAllow: readonly string[] = []) => {
    const loaders = loadersOf('lake', { ...settings, endpoint }, { egressAllow, timeoutMs: TIMEOUT_MS });
    onTestFinished(() => loaders.close());
    const result = await loaders.open().test(signal);
    expect(JSON.stringify(result)).not.toContain('secret-of-the-key');
    return result;
  };

  it('is not reached at an address of the operator', async () => {
    expect(await tested('http://10.0.0.1')).toEqual({ ok: false, reason: 'address not allowed' });
  });

  it.each([
    [
      'a document with a declaration',
      '<!DOCTYPE x [<!ENTITY e "eeee">]><ListBucketResult/>',
      'the answer cannot be understood',
    ],
    ['a document without an end', '<ListBucketResult>'.repeat(200_000), 'the answer is too long'],
    ['no document', 'hello', expect.any(String)],
  ])('that answers with %s is told as such', async (_title, body, reason) => {
    const headers = { 'content-type': 'application/xml' };
    const server = await onLoopback(
      createServer((_, response) => response.writeHead(200, headers).end(body)),
    );
    onTestFinished(() => server.close());
    const result = await tested(server.url, ['127.0.0.0/8']);
    expect(result).toEqual({ ok: false, reason });
  });
});
