import { access, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { WarehouseRefused } from '@tributary/core';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type FileFaults, fileError, killedBefore } from '../../../../helpers/file-faults.ts';
import { maintained, signal, TestLoader, track } from '../../suite/harness.ts';
import { profileChange } from '../../suite/profiles.ts';
import { loadThroughKill } from '../folder-harness.ts';
import { ducklakeHarness, inCatalog } from './harness.ts';

/** Loads, of which most are killed at a change of a file or of the catalog. */
const KILLS = process.env.TRIBUTARY_TEST_LONG === undefined ? 12 : 100;
/** Changes of files that a load of these tests makes, at most. */
const CHANGES = 12;
const HOUR_MS = 3_600_000;

let now = Date.now();
let harness: Awaited<ReturnType<typeof ducklakeHarness>>;
beforeEach(async () => {
  now = Date.now();
  harness = await ducklakeHarness(() => now);
});
afterEach(() => harness.close());

const ids = async (table: string) => (await harness.rows(table)).map(({ id }) => String(id)).sort();
const numbers = (sql: string) =>
  inCatalog(harness.folder, (query) => query(sql).map((row) => Number(Object.values(row)[0])));
const files = async () =>
  (await readdir(join(harness.folder, 'main'), { recursive: true })).filter((name) =>
    name.endsWith('.parquet'),
  );
/** All that the files of the lake say, and its catalog. */
const said = async () => {
  const names = (await readdir(harness.folder, { recursive: true })).filter((name) =>
    /\.(parquet|sqlite)/.test(name),
  );
  const texts = await Promise.all(names.map((name) => readFile(join(harness.folder, name), 'latin1')));
  return texts.join('\n');
};

describe('a DuckLake in a folder', () => {
  it('report 24: has each row once, whenever its loader is killed', async () => {
    const sent: string[] = [];
    for (let seq = 1; seq <= KILLS; seq++) {
      const events = [0, 1].map((at) => track('Kill', { [`p${seq % 3}`]: seq % 4 === 0 ? 'x' : at }));
      sent.push(...events.map(({ message_id }) => message_id));
      await loadThroughKill(harness, killedBefore(1 + ((seq * 5) % CHANGES)), events, seq);
    }
    expect(await ids('kill')).toEqual([...sent].sort());
    expect(await harness.rows('users')).toEqual([
      expect.objectContaining({ ucid: 'U1', seq: String(KILLS) }),
    ]);
    now += 10 * HOUR_MS;
    await maintained(harness.open());
    const known = numbers('select count(*) from ducklake_data_file')[0] ?? 0;
    const scheduled = numbers('select count(*) from ducklake_files_scheduled_for_deletion')[0] ?? 0;
    expect(await files()).toHaveLength(known + scheduled);
  });

  it('has nothing of a load that the disk refused, and no file of it', async () => {
    const loader = new TestLoader(harness.open());
    await loader.load([track('Order', { n: 1 })]);
    const before = await files();
    const faults: FileFaults = {
      before(call) {
        if (call === 'open') throw fileError('ENOSPC');
      },
    };
    await expect(new TestLoader(harness.open(faults)).load([track('Order', { n: 2 })])).rejects.toThrow(
      'disk full',
    );
    expect(await files()).toEqual(before);
    expect(await ids('order')).toHaveLength(1);
  });

  it('merges small files of past days, and keeps what they were for a week', async () => {
    const loader = new TestLoader(harness.open());
    const events = Array.from({ length: 20 }, (_, at) =>
      track('Order', { n: at }, { received_at: `2024-02-29T12:00:${10 + at}.000Z` }),
    );
    for (let at = 0; at < events.length; at += 2) await loader.load(events.slice(at, at + 2));
    await maintained(harness.open());
    const current = 'select count(*) from ducklake_data_file where end_snapshot is null and table_id = 2';
    expect(numbers(current)).toEqual([1]);
    expect(await ids('order')).toHaveLength(20);
    expect((await loader.load(events)).result).toMatchObject({ inserted: { order: 0, tracks: 0 } });
    const all = await files();
    now += 6 * 24 * HOUR_MS;
    await maintained(harness.open());
    expect(await files()).toEqual(all);
    now += 2 * 24 * HOUR_MS;
    await maintained(harness.open());
    now += 2 * HOUR_MS;
    await maintained(harness.open());
    expect((await files()).filter((name) => name.startsWith('order/'))).toHaveLength(1);
    expect(numbers('select count(*) from ducklake_snapshot')).toEqual([1]);
    expect(await ids('order')).toHaveLength(20);
  });

  it('says nothing of a person any more, two hours after the deletion', async () => {
    const loader = new TestLoader(harness.open());
    const about = (at: number) =>
      track('Order', { n: at }, { user_id: at % 2 === 0 ? 'ann-the-first' : 'bob' });
    const changes = [profileChange('U1', 1, { plan: 'free' }, ['ann-the-first'])];
    await loader.load([0, 1, 2, 3].map(about), { changes });
    await loader.load([track('Order', { n: 'text' }, { user_id: 'bob' })]);
    expect(await said()).toContain('ann-the-first');
    await loader.warehouse.delete({ user_ids: ['ann-the-first'], anonymous_ids: [], ucids: ['U1'] }, signal);
    now = Date.now() + 2 * HOUR_MS;
    await maintained(harness.open());
    expect(await said()).not.toContain('ann-the-first');
    expect(await ids('order')).toHaveLength(3);
  });

  it('moves with its folder', async () => {
    const loader = new TestLoader(harness.open());
    await loader.load([track('Order', { n: 1 })]);
    inCatalog(harness.folder, (query) =>
      query("update ducklake_metadata set value = '/elsewhere/' where key = 'data_path'"),
    );
    await loader.load([track('Order', { n: 2 })]);
    const path = inCatalog(harness.folder, (query) =>
      query("select value from ducklake_metadata where key = 'data_path'"),
    );
    expect(path[0]?.value).toBe(`${harness.folder}/`);
    await rename(harness.folder, `${harness.folder}.moved`);
    expect(await loader.warehouse.newest('live', signal)).toBeUndefined();
    await rm(harness.folder, { recursive: true });
    await rename(`${harness.folder}.moved`, harness.folder);
    expect(await loader.warehouse.newest('live', signal)).toMatchObject({ seq: 2 });
    expect(await ids('order')).toHaveLength(2);
  });

  it('keeps its files where the catalog is lost, which is told', async () => {
    const loader = new TestLoader(harness.open());
    await loader.load([track('Order', { n: 1 })]);
    await loader.warehouse.close();
    const catalog = join(harness.folder, 'metadata.sqlite');
    await rename(catalog, `${catalog}.aside`);
    const late = harness.open();
    await expect(late.newest('live', signal)).rejects.toThrow(/no catalog/);
    await late.close();
    await rename(`${catalog}.aside`, catalog);
    expect(await harness.open().newest('live', signal)).toMatchObject({ seq: 1 });
  });

  it('neither removes nor reads what its catalog names outside of the lake', async () => {
    const loader = new TestLoader(harness.open());
    await loader.load([track('Order', { n: 1 })]);
    const secret = join(harness.folder, '..', 'secret.parquet');
    await writeFile(secret, 'of another lake');
    inCatalog(harness.folder, (query) => {
      query(`insert into ducklake_files_scheduled_for_deletion values
        (99, '../secret.parquet', 1, '2020-01-01 00:00:00.000+00')`);
      query("update ducklake_data_file set path = '../../../secret.parquet' where table_id = 2");
    });
    await expect(maintained(harness.open())).rejects.toThrow(/not in the lake/);
    await expect(loader.load([track('Order', { n: 'text' })])).rejects.toThrow(/not in the lake/);
    await access(secret);
  });

  it.each([
    ['mapping_id = 1', 'know columns by name'],
    ['path_is_relative = 0', 'lie elsewhere'],
  ])(
    'holds a column, and deletes from other tables alone, where files that were added by hand %s: they %s',
    async (added) => {
      const loader = new TestLoader(harness.open());
      await loader.load([track('Order', { n: 1 }), track('Other', {}, { user_id: 'ann' })]);
      inCatalog(harness.folder, (query) =>
        query(`update ducklake_data_file set ${added} where table_id = 2`),
      );
      const widen = new Map([['n', { from: 'bigint', to: 'text' }]] as const);
      const changes = [{ table: 'order', add: new Map(), widen }];
      expect(await loader.warehouse.alter(changes, signal)).toMatchObject([{ table: 'order', column: 'n' }]);
      const described = await loader.warehouse.describe(['order'], signal);
      expect(described.get('order')?.get('n')).toBe('bigint');
      const people = { user_ids: ['ann'], anonymous_ids: [], ucids: [] };
      await expect(loader.warehouse.delete(people, signal)).rejects.toThrow(/ducklake_add_data_files/);
      expect(await ids('other')).toEqual([]);
      expect(await ids('tracks')).toHaveLength(1);
    },
  );

  it('keeps the events of a person whose discards cannot be deleted yet, as those are found by them', async () => {
    const loader = new TestLoader(harness.open());
    await loader.load([track('Order', { n: 'a\ud800' }, { user_id: 'ann' })]);
    const discards = "(select table_id from ducklake_table where table_name = 'discards')";
    const addedByHand = (id: string) =>
      inCatalog(harness.folder, (query) =>
        query(`update ducklake_data_file set mapping_id = ${id} where table_id = ${discards}`),
      );
    addedByHand('1');
    const people = { user_ids: ['ann'], anonymous_ids: [], ucids: [] };
    await expect(loader.warehouse.delete(people, signal)).rejects.toThrow(/ducklake_add_data_files/);
    expect(await ids('order')).toHaveLength(1);
    addedByHand('null');
    expect(await loader.warehouse.delete(people, signal)).toMatchObject({ discards: 1, order: 1 });
  });

  it.each([
    ['another version', "update ducklake_metadata set value = '1.1' where key = 'version'", /version 1.1/],
    ['encrypted files', "update ducklake_metadata set value = 'true' where key = 'encrypted'", /encrypted/],
    [
      'rows in the catalog itself',
      'create table ducklake_inlined_data_2_1 as select 1 as row_id',
      /ducklake_flush_inlined_data/,
    ],
  ])('of %s is told, and nothing is changed in it', async (_title, sql, reason) => {
    const loader = new TestLoader(harness.open());
    await loader.load([track('Order', { n: 1 })]);
    inCatalog(harness.folder, (query) => query(sql));
    const late = new TestLoader(harness.open());
    const failure = late.load([track('Order', { n: 'text' })]).catch((error: unknown) => error);
    expect(await failure).toBeInstanceOf(WarehouseRefused);
    expect(String(await failure)).toMatch(reason);
    expect(await ids('order')).toHaveLength(1);
  });
});
