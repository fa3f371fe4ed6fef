import { randomBytes } from 'node:crypto';
import { access, readdir, readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Unavailable, WarehouseRefused } from '@tributary/core';
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { onLoopback } from '../../../../helpers/on-loopback.ts';
import { TIMEOUT_MS } from '../../../connector/suite/harness.ts';
import { loadersOf, maintained, signal, TestLoader, track } from '../../suite/harness.ts';
import type { Fate } from '../../suite/http-proxy.ts';
import { profileChange } from '../../suite/profiles.ts';
import { startFakeCatalog } from './fake-catalog.ts';
import { type IcebergHarness, icebergHarness } from './harness.ts';

const HOUR_MS = 3_600_000;
const TIME = '2024-02-29T12:00:01.000Z';

let now = Date.now();
let catalog: Awaited<ReturnType<typeof startFakeCatalog>>;
let harness: IcebergHarness;
beforeEach(async () => {
  now = Date.now();
  catalog = await startFakeCatalog();
  harness = await icebergHarness(catalog, () => now);
});
afterEach(() => harness.close());

const ids = async (table: string) => (await harness.rows(table)).map(({ id }) => String(id)).sort();
const idsOf = (events: readonly { readonly message_id: string }[]) =>
  events.map(({ message_id }) => message_id).sort();
const isCommit = (method: string, path: string) => method === 'POST' && /\/tables\/[^/?]+$/.test(path);
/** Whether files of the lake have a text. */
async function isInFiles(text: string): Promise<boolean> {
  const entries = await readdir(harness.folder, { recursive: true, withFileTypes: true });
  for (const entry of entries)
    if (entry.isFile() && (await readFile(join(entry.parentPath, entry.name))).includes(text)) return true;
  return false;
}

describe('report 35: a commit whose answer was lost', () => {
  it.each(['lost', '503'] as const)('is recognized, and not made twice (%s)', async (fate: Fate) => {
    const loader = new TestLoader(harness.open());
    await loader.load([track('Order', { n: 0 })]);
    let commits = 0;
    harness.decide((method, path) => (isCommit(method, path) && commits++ % 2 === 0 ? fate : 'answered'));
    const events = Array.from({ length: 4 }, (_, at) => track('Order', { n: at }));
    for (const event of events) {
      const { result } = await loader.load([event]);
      expect(result).toMatchObject({ done: true, inserted: { order: 1, tracks: 1 } });
    }
    expect(commits).toBeGreaterThan(8);
    expect(await ids('order')).toHaveLength(5);
    const { metadata, files } = (await harness.state('order')) ?? {};
    expect(metadata?.['last-sequence-number']).toBe(5);
    expect(new Set(files).size).toBe(5);
    expect(await loader.warehouse.newest('live', signal)).toMatchObject({ seq: 5 });
  });

  it('that never arrived is made again', async () => {
    const loader = new TestLoader(harness.open());
    let commits = 0;
    harness.decide((method, path) =>
      isCommit(method, path) && commits++ % 3 === 0 ? 'refused' : 'answered',
    );
    await loader.load([track('Order', { n: 1 })]);
    await loader.load([track('Order', { n: 2 })]);
    expect(await ids('order')).toHaveLength(2);
  });

  it('says with its snapshot which load it was', async () => {
    const loader = new TestLoader(harness.open());
    await loader.load([track('Order', { n: 1 })], { lane: 'replay-1' });
    const snapshots = (await catalog.table(harness.namespace, 'order'))?.snapshots;
    expect(snapshots).toEqual([
      expect.objectContaining({
        summary: expect.objectContaining({
          operation: 'append',
          'tributary.lane': 'replay-1',
          'tributary.seq': '1',
          'total-records': '1',
        }),
      }),
    ]);
  });
});

it('report 36: two loaders beside a compaction of another program lose and double no row', async () => {
  await new TestLoader(harness.open()).load([track('Order', { n: 0 })]);
  // Each commit finds that the table has another snapshot with the same rows, nine times of ten.
  let commits = 0;
  harness.decide((method, path) => {
    const table = isCommit(method, path) ? (/[^/]+$/.exec(path)?.[0] ?? '') : '';
    if (table !== '' && !table.startsWith('_') && commits++ % 10 < 8)
      catalog.change(harness.namespace, table, rewrittenByOther);
    return 'answered';
  });
  const sent: string[] = [];
  const load = async (lane: string) => {
    const loader = new TestLoader(harness.open());
    for (let batch = 0; batch < 4; batch++) {
      const events = [track('Order', { n: batch }), track('Order', { n: batch })];
      sent.push(...idsOf(events));
      await loader.loadAtLast(events, { lane });
    }
  };
  await Promise.all([load('one'), load('two')]);
  expect(commits).toBeGreaterThan(60);
  expect((await ids('order')).length).toBe(17);
  expect((await ids('order')).filter((id) => sent.includes(id))).toEqual([...sent].sort());
});

/** As a compaction leaves a table: another snapshot, of the same rows. */
function rewrittenByOther(metadata: Record<string, unknown>): void {
  const snapshots = metadata.snapshots as Record<string, unknown>[];
  const current = JSON.stringify(metadata['current-snapshot-id']);
  const parent = snapshots.find((one) => JSON.stringify(one['snapshot-id']) === current);
  const id = JSON.rawJSON(String(BigInt.asUintN(62, randomBytes(8).readBigUInt64LE())));
  const sequence = Number(metadata['last-sequence-number']) + 1;
  const summary = { operation: 'replace' };
  snapshots.push({ ...parent, 'snapshot-id': id, 'sequence-number': sequence, summary });
  metadata['last-sequence-number'] = sequence;
  metadata['current-snapshot-id'] = id;
  metadata.refs = { main: { type: 'branch', 'snapshot-id': id } };
}

it('a change whose first file may be removed as an orphan before it is whole is not committed', async () => {
  const loader = new TestLoader(harness.open());
  const changes = [profileChange('U1', 1, { plan: 'free' }, ['ann'])];
  await loader.load([track('Order', { n: 1 })], { changes });
  let late = 0;
  const clock = performance.now.bind(performance);
  const spy = vi.spyOn(performance, 'now').mockImplementation(() => clock() + late);
  onTestFinished(() => spy.mockRestore());
  // The tables of profiles are read behind the first files of events.
  harness.decide((method, path) => {
    if (method === 'GET' && path.includes('/tables/users')) late += 40 * 60_000;
    return 'answered';
  });
  const next = [profileChange('U1', 2, { plan: 'pro' }, ['ann'])];
  await expect(loader.load([track('Order', { n: 2 })], { changes: next })).rejects.toThrow(/took too long/);
  expect(await ids('order')).toHaveLength(1);
  const files = await readdir(harness.folder, { recursive: true });
  expect(files.filter((name) => name.startsWith('order-') && name.endsWith('.parquet'))).toHaveLength(1);
});

describe('maintenance', () => {
  it('keeps the snapshot of a query for an hour from when the next one was made', async () => {
    const loader = new TestLoader(harness.open());
    const snapshots = async () => (await catalog.table(harness.namespace, 'order'))?.snapshots;
    await loader.load([track('Order', { n: 1 })]);
    now += 3 * HOUR_MS;
    await loader.load([track('Order', { n: 2 })]);
    await maintained(harness.open());
    expect(await snapshots()).toHaveLength(2);
    now += 2 * HOUR_MS;
    await maintained(harness.open());
    expect(await snapshots()).toHaveLength(1);
  });

  it('merges small files, removes old snapshots and orphans, and keeps what is read', async () => {
    const loader = new TestLoader(harness.open());
    const events = Array.from({ length: 10 }, (_, at) =>
      track('Order', { n: at }, { received_at: `2024-02-29T12:00:${10 + at}.000Z` }),
    );
    for (const event of events) await loader.load([event]);
    const before = (await harness.state('order'))?.files ?? [];
    expect(before).toHaveLength(10);
    await maintained(harness.open());
    const merged = (await harness.state('order'))?.files ?? [];
    expect(merged).toHaveLength(1);
    // Programs that read a table as a stream skip what has the same rows.
    const changes = (await catalog.table(harness.namespace, 'order'))?.snapshots;
    expect(changes).toContainEqual(
      expect.objectContaining({ summary: expect.objectContaining({ operation: 'replace' }) }),
    );
    expect(await ids('order')).toEqual(idsOf(events));
    // Readers of the snapshots of before find their files for an hour.
    await Promise.all(before.map((file) => access(file)));
    now += 2 * HOUR_MS;
    await maintained(harness.open());
    expect((await harness.state('order'))?.files).toEqual(merged);
    await expect(access(before[0] ?? '')).rejects.toThrow();
    expect((await catalog.table(harness.namespace, 'order'))?.snapshots).toHaveLength(1);
    const left = await readdir(harness.folder, { recursive: true });
    expect(left.filter((name) => name.startsWith('order-') && name.endsWith('.parquet'))).toHaveLength(1);
    expect(left.filter((name) => name.startsWith('order-') && name.endsWith('.avro'))).toHaveLength(3);
    expect((await loader.load(events)).result).toMatchObject({ inserted: { order: 0 } });
  });
});

describe('a table of the namespace that is none of a loader', () => {
  const people = { user_ids: ['ann-the-first'], anonymous_ids: [], ucids: [] };
  const loaded = async () => {
    const loader = new TestLoader(harness.open());
    await loader.load([track('Other', {})]);
    for (let at = 0; at < 10; at++) {
      const received_at = `2024-02-29T12:00:${10 + at}.000Z`;
      await loader.load([
        track('Order', { n: at }, { received_at, user_id: at === 0 ? 'ann-the-first' : 'x' }),
      ]);
    }
    return loader;
  };

  it('keeps no other from maintenance and deletions, also in another format version', async () => {
    const { warehouse } = await loaded();
    catalog.change(harness.namespace, 'other', (metadata) => {
      const { location } = metadata;
      for (const key of Object.keys(metadata)) delete metadata[key];
      const schema = { type: 'struct', fields: [{ id: 1, name: 'x', required: false, type: 'string' }] };
      const whole = {
        'format-version': 1,
        'last-column-id': 1,
        'partition-spec': [],
        refs: {},
        snapshots: [],
      };
      Object.assign(metadata, whole, { location, schema });
    });
    expect(await warehouse.delete(people, signal)).toMatchObject({ order: 1 });
    await maintained(harness.open());
    expect((await harness.state('order'))?.files).toHaveLength(1);
  });

  it('is named where its metadata does not tell whose it is', async () => {
    const { warehouse } = await loaded();
    catalog.change(harness.namespace, 'other', (metadata) => void Object.assign(metadata, { schemas: [] }));
    await expect(warehouse.delete(people, signal)).rejects.toThrow(/other: .*no current schema/);
    expect(await isInFiles('ann-the-first')).toBe(false);
    const maintaining = harness.open();
    await expect(maintaining.maintain?.(signal)).rejects.toThrow(/other: .*no current schema/);
    await maintained(maintaining);
    expect((await harness.state('order'))?.files).toHaveLength(1);
  });
});

describe('a deletion', () => {
  it('leaves nothing of a person in any file, also of snapshots of before', async () => {
    const loader = new TestLoader(harness.open());
    await loader.load([track('Order', { note: 'ann-note' }, { user_id: 'ann-the-first' })], {
      changes: [profileChange('U1', 1, { plan: 'free' }, ['ann-the-first'])],
    });
    await loader.load([track('Order', { note: 'x' }, { user_id: 'bob' })], {
      changes: [profileChange('U1', 2, { plan: 'pro' }, ['ann-the-first'])],
    });
    expect(await isInFiles('ann-the-first')).toBe(true);
    const people = { user_ids: ['ann-the-first'], anonymous_ids: [], ucids: ['U1'] };
    expect(await loader.warehouse.delete(people, signal)).toMatchObject({ order: 1, tracks: 1, users: 1 });
    expect(await isInFiles('ann-the-first')).toBe(false);
    expect(await ids('order')).toHaveLength(1);
    expect(await loader.warehouse.delete(people, signal)).toMatchObject({ order: 0 });
  });

  it('removes the files of a deletion that was cut short', async () => {
    const loader = new TestLoader(harness.open());
    await loader.load([track('Order', {}, { user_id: 'ann-the-first' }), track('Order', {})]);
    let isCut = false;
    harness.decide((method, path) => {
      isCut ||= method === 'GET' && path.endsWith('?snapshots=all');
      return isCut ? 'refused' : 'answered';
    });
    const people = { user_ids: ['ann-the-first'], anonymous_ids: [], ucids: [] };
    await expect(loader.warehouse.delete(people, signal)).rejects.toThrow(Unavailable);
    expect(isCut).toBe(true);
    harness.decide(() => 'answered');
    await loader.warehouse.delete(people, signal);
    expect(await isInFiles('ann-the-first')).toBe(false);
  });

  it('tells of a tag that keeps the rows', async () => {
    const loader = new TestLoader(harness.open());
    await loader.load([track('Order', {}, { user_id: 'ann' })]);
    catalog.change(harness.namespace, 'order', (metadata) => {
      const tag = { type: 'tag', 'snapshot-id': metadata['current-snapshot-id'] };
      metadata.refs = { ...(metadata.refs as object), audit: tag };
    });
    const people = { user_ids: ['ann'], anonymous_ids: [], ucids: [] };
    await expect(loader.warehouse.delete(people, signal)).rejects.toThrow(/drop audit of order/);
  });
});

describe('a table that another program changed', () => {
  const fieldsOf = (metadata: Record<string, unknown>) =>
    (metadata.schemas as Record<string, unknown>[]).at(-1)?.fields as Record<string, unknown>[];

  it('has a narrower type that is widened in place, and a renamed column', async () => {
    const loader = new TestLoader(harness.open());
    await loader.load([track('Order', { n: 1, name: 'a' })]);
    catalog.change(harness.namespace, 'order', (metadata) => {
      for (const field of fieldsOf(metadata)) {
        if (field.name === 'n') field.type = 'int';
        if (field.name === 'name') field.name = 'title';
      }
    });
    await loader.load([track('Order', { n: 2, name: 'b' })]);
    expect(await harness.type('order', 'n')).toBe('bigint');
    const found = await harness.rows('order');
    expect(found.map(({ n, title, name }) => [n, title, name]).sort()).toEqual([
      ['1', 'a', null],
      ['2', null, 'b'],
    ]);
  });

  it('has a column of a foreign type: it is not written, nor are files with it written anew', async () => {
    const loader = new TestLoader(harness.open());
    await loader.load([track('Order', { n: 1, other: 1 }, { user_id: 'ann' })]);
    catalog.change(harness.namespace, 'order', (metadata) => {
      for (const field of fieldsOf(metadata)) if (field.name === 'other') field.type = 'date';
    });
    const { drifts } = await loader.load([track('Order', { n: 'text', other: 2 })]);
    expect(drifts).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ column: 'other', kind: 'foreign' }),
        expect.objectContaining({ column: 'n', kind: 'held' }),
      ]),
    );
    const people = { user_ids: ['ann'], anonymous_ids: [], ucids: [] };
    await expect(loader.warehouse.delete(people, signal)).rejects.toThrow(
      /has a type that is not written anew/,
    );
  });

  it('has a column of a foreign type in a table of profiles, whose files are not written anew', async () => {
    const loader = new TestLoader(harness.open());
    const changes = [profileChange('U1', 1, { plan: 'free', other: 1 }, ['ann'])];
    await loader.load([track('Order', {})], { changes });
    catalog.change(harness.namespace, 'users', (metadata) => {
      for (const field of fieldsOf(metadata)) if (field.name === 'other') field.type = 'date';
    });
    const next = [profileChange('U1', 2, { plan: 'pro' }, ['ann'])];
    await expect(loader.load([track('Order', {})], { changes: next })).rejects.toThrow(/not written anew/);
  });

  it('is refused, and no file of the load is left, of other tables either', async () => {
    const loader = new TestLoader(harness.open());
    await loader.load([track('Order', { n: 1 }), track('Refund', { n: 1 })]);
    catalog.change(harness.namespace, 'order', (metadata) => {
      metadata['format-version'] = 3;
    });
    const files = async () => (await readdir(harness.folder, { recursive: true })).sort();
    const before = await files();
    const events = [track('Order', { n: 2 }), track('Refund', { n: 2 })];
    await expect(loader.load(events)).rejects.toThrow(/format version 3/);
    // A file that one table wrote after the refusal of the other would be there by then.
    await sleep(200);
    expect(await files()).toEqual(before);
  });

  it.each([
    ['another format version', { 'format-version': 3 }, /format version 3/],
    ['a place outside of the lake', { location: 'file:/etc/tributary' }, /not below/],
    ['a place above the lake', { location: 'file:/../x' }, /not below/],
    ['no schema', { schemas: [] }, /no current schema/],
  ])('has %s, which is told', async (_title, change, told) => {
    const loader = new TestLoader(harness.open());
    await loader.load([track('Order', { n: 1 })]);
    catalog.change(harness.namespace, 'order', (metadata) => void Object.assign(metadata, change));
    await expect(loader.load([track('Order', { n: 2 })])).rejects.toThrow(WarehouseRefused);
    await expect(loader.load([track('Order', { n: 2 })])).rejects.toThrow(told);
  });
});

describe('the catalog', () => {
  const tested = async (answer: string, status = 200, settings: Readonly<Record<string, string>> = {}) => {
    const headers = { 'content-type': 'application/json', location: 'http://10.0.0.1/' };
    const server = await onLoopback(
      createServer((_, response) => response.writeHead(status, headers).end(answer)),
    );
    onTestFinished(() => server.close());
    const whole = {
      format: 'iceberg',
      folder: 'x',
      catalog_url: server.url,
      catalog_token: 'token-of-the-loader',
      ...settings,
    };
    const loaders = loadersOf('lake', whole, { dataFolder: harness.folder, timeoutMs: TIMEOUT_MS });
    onTestFinished(() => loaders.close());
    const result = await loaders.open().test(signal);
    expect(JSON.stringify(result)).not.toContain('token-of-the-loader');
    return result;
  };

  it.each([
    ['no JSON', 'hello', 200, /cannot be understood/],
    ['an answer without an end', `{"defaults":${'['.repeat(40_000_000)}`, 200, /not whole/],
    ['a prefix that leads elsewhere', '{"overrides":{"prefix":"../../admin"}}', 200, /prefix/],
    ['a redirect', '', 302, /answered 302/],
    ['a refusal', '{"error":{"message":"no: token-of-the-loader"}}', 403, /answered 403: no: \*\*\*/],
    ['a table without metadata', '{}', 200, /no metadata/],
  ])('that answers with %s is told as such', async (_title, answer, status, reason) => {
    expect(await tested(answer, status)).toEqual({ ok: false, reason: expect.stringMatching(reason) });
  });

  it('that refuses, and breaks off, is told with its status', async () => {
    const server = await onLoopback(
      createServer((_, response) => {
        response.writeHead(403, { 'content-type': 'application/json', 'content-length': '500' });
        response.write('{"error":', () => response.destroy());
      }),
    );
    onTestFinished(() => server.close());
    const result = await tested('', 200, { catalog_url: server.url });
    expect(result).toEqual({ ok: false, reason: expect.stringMatching(/the catalog answered 403/) });
  });

  it('is not reached at an address of the operator', async () => {
    expect(await tested('{}', 200, { catalog_url: 'http://10.0.0.1' })).toMatchObject({ ok: false });
  });

  it('keeps the namespace that a connection test made for a first load beside it', async () => {
    const loader = new TestLoader(harness.open());
    const events = [track('Order', { n: 1 })];
    const [tested] = await Promise.all([harness.open().test(signal), loader.loadAtLast(events, {})]);
    expect(tested).toEqual({ ok: true });
    expect(await ids('order')).toEqual(idsOf(events));
  });

  it('signs in again where its token ended', async () => {
    const loader = new TestLoader(harness.open());
    await loader.load([track('Order', { n: 1 })]);
    catalog.endToken();
    await loader.load([track('Order', { n: 2 }, { received_at: TIME })]);
    expect(await ids('order')).toHaveLength(2);
  });
});
