import { appendFile, mkdir, readdir, readFile, rm, truncate, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { newId, Unavailable } from '@tributary/core';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type FileChange, type FileFaults, fileError, killedBefore } from '../../../helpers/file-faults.ts';
import { parquetTable } from '../suite/duckdb.ts';
import { maintained, signal, TestLoader, track } from '../suite/harness.ts';
import { type FolderHarness, folderHarness, loadThroughKill } from './folder-harness.ts';

/** Kills of report 24. */
const KILLS = process.env.TRIBUTARY_TEST_LONG === undefined ? 30 : 100;
/** Changes of files that a load of these tests makes, at most. */
const CHANGES = 90;
const DAY_MS = 86_400_000;

let now = Date.now();
let harness: FolderHarness;
beforeEach(async () => {
  now = Date.now();
  harness = await folderHarness(() => now);
});
afterEach(() => harness.close());

const ids = async (table: string) => (await harness.rows(table)).map(({ id }) => String(id)).sort();
const filesIn = async (folder: string) =>
  (await readdir(join(harness.folder, folder), { recursive: true })).filter((name) =>
    name.endsWith('.parquet'),
  );

describe('a lake in a folder', () => {
  it('report 24: has each row once, whenever its loader is killed', async () => {
    const sent: string[] = [];
    for (let seq = 1; seq <= KILLS; seq++) {
      const events = [0, 1, 2].map((at) =>
        track(`Kill ${at}`, { [`p${seq % 5}`]: seq % 7 === 0 ? 'x' : at }),
      );
      sent.push(...events.map(({ message_id }) => message_id));
      const faults = killedBefore(1 + ((seq * 37) % CHANGES));
      await loadThroughKill(harness, faults, events, seq);
      if (seq % 10 === 0) {
        const found = await ids('tracks');
        expect(found).toEqual([...sent].sort());
      }
    }
    const own = await Promise.all(['kill_0', 'kill_1', 'kill_2'].map(ids));
    expect(own.flat().sort()).toEqual([...sent].sort());
    expect(await harness.rows('users')).toEqual([
      expect.objectContaining({ ucid: 'U1', seq: String(KILLS) }),
    ]);
    expect(await harness.rows('discards')).toEqual([]);
  });

  it('report 20: loads a batch again whose staged file was removed before it was committed', async () => {
    const events = [track('Order', { n: 1 })];
    const remover: FileFaults = { before: removesStaged('link') };
    await expect(new TestLoader(harness.open(remover)).load(events)).rejects.toThrow(Unavailable);
    const next = new TestLoader(harness.open());
    expect(await next.warehouse.newest('live', signal)).toBeUndefined();
    await next.load(events);
    expect(await ids('order')).toEqual([events[0]?.message_id]);
  });

  it('report 20: loads a batch again whose staged file was removed after it was committed', async () => {
    const events = [track('Order', { n: 1 }), track('Other', { n: 2 })];
    const loader = new TestLoader(harness.open({ before: removesStaged('rename') }));
    await expect(loader.load(events)).rejects.toThrow(Unavailable);
    const next = new TestLoader(harness.open());
    expect(await next.warehouse.newest('live', signal)).toBeUndefined();
    await next.load(events);
    expect(await ids('tracks')).toEqual(events.map(({ message_id }) => message_id).sort());
    expect([await ids('order'), await ids('other')].flat()).toHaveLength(2);
  });

  it('report 34: keeps the staged files until they have their names', async () => {
    const loader = new TestLoader(harness.open());
    await loader.load([track('Order', { n: 1 })]);
    const faults: FileFaults = {
      before(call) {
        if (call === 'rename') throw fileError('EIO');
      },
    };
    const events = [track('Order', { n: 2 })];
    const failing = new TestLoader(harness.open(faults));
    await expect(failing.load(events)).rejects.toThrow(Unavailable);
    const staged = await readdir(join(harness.folder, '_tributary/staging'), { recursive: true });
    // A folder, the rows of two tables, and the row of the ledger.
    expect(staged).toHaveLength(4);
    expect((await loader.warehouse.newest('live', signal))?.seq).toBe(2);
    expect(await ids('order')).toHaveLength(2);
    expect(await readdir(join(harness.folder, '_tributary/staging'))).toEqual([]);
  });

  it('report 10: takes nothing from what another attempt left behind', async () => {
    await mkdir(join(harness.folder, '_tributary/staging/broken'), { recursive: true });
    await writeFile(join(harness.folder, '_tributary/staging/broken/0'), 'half a file');
    const loader = new TestLoader(harness.open());
    await loader.load([track('Order', { n: 1 })]);
    expect(await ids('order')).toHaveLength(1);
    now += 2 * DAY_MS;
    await maintained(harness.open());
    expect(await readdir(join(harness.folder, '_tributary/staging'), { recursive: true })).not.toContain(
      'broken/0',
    );
  });

  it.each(['ENOSPC', 'EROFS', 'EACCES'])(
    'waits while the disk says %s, and has nothing of the load',
    async (code) => {
      const loader = new TestLoader(harness.open());
      await loader.load([track('Order', { n: 1 })]);
      const faults: FileFaults = {
        before(call) {
          if (call === 'open') throw fileError(code);
        },
      };
      const failing = new TestLoader(harness.open(faults));
      await expect(failing.load([track('Order', { n: 2 })])).rejects.toThrow(Unavailable);
      expect(await failing.warehouse.test(signal)).toEqual({
        ok: false,
        reason: expect.stringMatching(/disk|permission/),
      });
      expect(await ids('order')).toHaveLength(1);
    },
  );

  it('is made again where somebody removed the whole folder, or a file', async () => {
    const loader = new TestLoader(harness.open());
    const events = [
      track('Order', { n: 1 }),
      track('Order', { n: 2 }, { received_at: '2024-03-01T00:00:00.000Z' }),
    ];
    await loader.load(events);
    const [file = ''] = await filesIn('order');
    await unlink(join(harness.folder, 'order', file));
    expect(await ids('order')).toHaveLength(1);
    await loader.load(events, { lane: 'replay-1' });
    expect(await ids('order')).toHaveLength(2);
    await rm(harness.folder, { recursive: true });
    expect(await loader.warehouse.newest('live', signal)).toBeUndefined();
    await loader.load(events);
    expect(await ids('order')).toHaveLength(2);
  });

  it('leaves files of a person alone, and tells of one that is broken', async () => {
    const loader = new TestLoader(harness.open());
    const event = track('Order', { n: 1 });
    await loader.load([event]);
    await writeFile(join(harness.folder, 'order/received_date=2024-02-29/notes.txt'), 'mine');
    expect((await loader.load([event])).result).toMatchObject({ inserted: { order: 0 } });
    const [file = ''] = await filesIn('order');
    await appendFile(join(harness.folder, 'order', file), 'more');
    await expect(loader.load([event])).rejects.toThrow(/is no file of a loader/);
  });

  it('merges small files of past days, with the same rows', async () => {
    const loader = new TestLoader(harness.open());
    const events = Array.from({ length: 30 }, (_, at) =>
      track('Order', { n: at === 29 ? 'last' : at }, { received_at: `2024-02-29T12:00:${10 + at}.000Z` }),
    );
    for (let at = 0; at < events.length; at += 3) await loader.load(events.slice(at, at + 3));
    const before = await harness.rows('order');
    expect(await filesIn('order')).toHaveLength(10);
    await maintained(harness.open());
    expect(await filesIn('order')).toHaveLength(1);
    const columns = ['id', 'n', 'received_at', 'event_text'];
    const relation = parquetTable(harness.folder, 'order');
    expect(await harness.judge.differences(relation, columns, before)).toEqual({ missing: [], surplus: [] });
    expect((await loader.load(events)).result).toMatchObject({ inserted: { order: 0, tracks: 0 } });
  });

  it('shows a row at most once while files are merged, and has all of them after a kill in between', async () => {
    const loader = new TestLoader(harness.open());
    const events = Array.from({ length: 10 }, (_, at) => track('Order', { n: at }));
    for (const event of events) await loader.load([event]);
    for (let kill = 1; kill < 60; kill += 3) {
      const faults = killedBefore(kill);
      await Promise.race([harness.open(faults).maintain?.(signal), faults.died]);
      const found = await ids('order');
      expect(new Set(found).size).toBe(found.length);
      await harness.open().newest('live', signal);
      expect(await ids('order')).toHaveLength(10);
    }
    await maintained(harness.open());
    expect(await filesIn('order')).toHaveLength(1);
  });

  it('keeps the type of a column whose table is too large to be written anew', async () => {
    const loader = new TestLoader(harness.open());
    await loader.load([track('Order', { n: 1 })]);
    const large = join(harness.folder, 'order/received_date=2020-01-01');
    await mkdir(large);
    const file = join(large, `00000000-00000001-${newId()}.parquet`);
    await writeFile(file, '');
    await truncate(file, 3 * 1_024 ** 3);
    const { drifts } = await loader.load([track('Order', { n: 2.5 }), track('Order', { n: 3 })]);
    expect(drifts).toEqual([expect.objectContaining({ table: 'order', column: 'n', kind: 'held' })]);
    await unlink(file);
    expect((await harness.rows('order')).map(({ n }) => n).sort()).toEqual(['1', '3', null]);
    expect((await harness.rows('discards')).map(({ value }) => value)).toEqual(['2.5']);
  });

  it('has a column for a property that is called as its partition', async () => {
    const loader = new TestLoader(harness.open());
    await loader.load([track('Order', { receivedDate: 'mine', date: 'today' })]);
    expect(await harness.rows('order')).toEqual([
      expect.objectContaining({ _received_date: 'mine', date: 'today', received_date: '2024-02-29' }),
    ]);
  });

  it('keeps the progress of each of two destinations in one folder', async () => {
    const [one, other] = [new TestLoader(harness.open()), new TestLoader(harness.openAnother())];
    const event = track('Order', { n: 1 });
    await one.load([event]);
    expect(await other.warehouse.newest('live', signal)).toBeUndefined();
    await other.load([event]);
    expect(await ids('order')).toHaveLength(1);
  });

  it('is readable although its ledger was changed by hand, which is told', async () => {
    const loader = new TestLoader(harness.open());
    await loader.load([track('Order', { n: 1 })]);
    const lanes = await readdir(join(harness.folder, '_tributary/lanes'), { recursive: true });
    const lane = lanes.find((name) => name.endsWith('live.json')) ?? '';
    await writeFile(join(harness.folder, '_tributary/lanes', lane), '{"seq": "all"}');
    await expect(loader.warehouse.newest('live', signal)).rejects.toThrow(/changed by hand/);
  });
});

/** Removes the staged files of tables before the first such call of a load, not of a change of tables. */
function removesStaged(before: FileChange) {
  let isDone = false;
  return async (call: FileChange) => {
    const staging = join(harness.folder, '_tributary/staging');
    if (isDone || call !== before) return;
    const staged = (await readdir(staging, { recursive: true, withFileTypes: true })).filter((entry) =>
      entry.isFile(),
    );
    const ofRows = await Promise.all(
      staged.map(async ({ parentPath, name }) => {
        const path = join(parentPath, name);
        return (await isParquet(path)) ? [path] : [];
      }),
    );
    const [path] = ofRows.flat();
    if (path === undefined) return;
    isDone = true;
    await unlink(path);
  };
}

async function isParquet(path: string): Promise<boolean> {
  return (await readFile(path)).subarray(0, 4).toString() === 'PAR1';
}
