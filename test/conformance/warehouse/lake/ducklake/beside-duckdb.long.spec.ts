import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { noEngine } from '../../../connector/suite/harness.ts';
import { maintained, signal, TestLoader, track } from '../../suite/harness.ts';
import { profileChange } from '../../suite/profiles.ts';
import { findExtensions } from './duckdb.ts';
import { duckdbHarness, ofLake } from './harness.ts';

const extensions = findExtensions();
const HOUR_MS = 3_600_000;

describe.skipIf(extensions === undefined && process.env.CI === undefined)(
  'DuckDB in the same DuckLake',
  () => {
    let now = Date.now();
    let harness: Awaited<ReturnType<typeof duckdbHarness>>;
    let loader: TestLoader;
    beforeEach(async () => {
      now = Date.now();
      harness = extensions === undefined ? noEngine('duckdb') : await duckdbHarness(extensions, () => now);
      loader = new TestLoader(harness.open());
      await loader.load([track('Order', { n: 1, who: 'first' })], {
        changes: [
          profileChange('U1', 1, { plan: 'free' }, ['ann']),
          profileChange('U2', 1, { plan: 'pro' }, ['bob']),
        ],
      });
    });
    afterEach(() => harness.close());

    const order = ofLake('order');
    const sql = async (text: string) => (await harness.judge()).query(text);
    const values = async (column: string) =>
      (await harness.rows('order')).map((row) => row[column] ?? null).sort();

    it('asks for any snapshot that is kept', async () => {
      await loader.load([track('Order', { n: 2.5 })]);
      expect(await values('n')).toEqual(['1', '2.5']);
      const [snapshot] =
        await sql(`select min(snapshot_id)::varchar as id from lake.snapshots() where author = 'tributary'
      and list_contains(map_keys(changes), 'tables_inserted_into')`);
      expect(await sql(`select n::varchar as n from ${order} at (version => ${snapshot?.id})`)).toEqual([
        { n: '1' },
      ]);
    });

    it('finds what it inserted, beside what is loaded behind it, whatever the bounds of the table were', async () => {
      await sql(`insert into ${order} (id, received_at, n) values ('hand', '2030-01-01', 7)`);
      await loader.load([track('Order', { n: 2 }, { received_at: '2035-01-01T00:00:00.000Z' })]);
      const found = async (where: string) =>
        (await sql(`select n::varchar as n from ${order} where ${where} order by 1`)).map(({ n }) => n);
      expect(await found("received_at > '2029-01-01'")).toEqual(['2', '7']);
      expect(await found("received_at > '2034-01-01'")).toEqual(['2']);
      expect(await found('n = 2 or n = 7')).toEqual(['2', '7']);
      await loader.load([track('Order', { n: 'text' })]);
      expect(await found('true')).toEqual(['1', '2', '7', 'text']);
    });

    it('deletes rows, which stay away when their file is written anew', async () => {
      const events = [2, 3, 4].map((n) => track('Order', { n }));
      await loader.load(events);
      await sql(`delete from ${order} where n = 3`);
      await loader.load([track('Order', { n: 'text' })]);
      expect(await values('n')).toEqual(['1', '2', '4', 'text']);
      await loader.load(events, { lane: 'backfill' });
      expect(await values('n')).toEqual(['1', '2', '3', '4', 'text']);
    });

    it('merges, expires and removes files, and everything is loaded and deleted as before', async () => {
      const events = Array.from({ length: 12 }, (_, n) =>
        track('Order', { n }, { user_id: n < 6 ? 'ann' : 'bob' }),
      );
      for (const event of events) await loader.load([event]);
      await sql("call ducklake_merge_adjacent_files('lake')");
      await sql("call ducklake_expire_snapshots('lake', older_than => now())");
      await sql("call ducklake_cleanup_old_files('lake', cleanup_all => true)");
      expect((await loader.load(events)).result).toMatchObject({ inserted: { order: 0, tracks: 0 } });
      await loader.load([track('Order', { n: 'text' })], {
        changes: [profileChange('U1', 2, { plan: 'gold' }, ['ann'])],
      });
      expect((await harness.rows('users')).map(({ ucid, plan }) => [ucid, plan]).sort()).toEqual([
        ['U1', 'gold'],
        ['U2', 'pro'],
      ]);
      const people = { user_ids: ['ann'], anonymous_ids: [], ucids: ['U1'] };
      expect(await loader.warehouse.delete(people, signal)).toMatchObject({ order: 6, tracks: 6, users: 1 });
      expect(await values('user_id')).not.toContain('ann');
      now += 2 * HOUR_MS;
      await maintained(loader.warehouse);
      expect(
        await sql("call ducklake_delete_orphaned_files('lake', dry_run => true, older_than => now())"),
      ).toEqual([]);
      expect(await harness.rows('order')).toHaveLength(8);
    });

    it('changes the lake while it is loaded, without a row that is lost or there twice', async () => {
      const sent = Array.from({ length: 40 }, (_, n) => track('Order', { n, [`p${n % 5}`]: n }));
      let isLoading = true;
      const beside = (async () => {
        for (let n = 0; isLoading; n++) {
          const text =
            n % 2 === 0
              ? `insert into ${order} (id, n) values ('hand-${n}', ${n})`
              : "call ducklake_merge_adjacent_files('lake')";
          // Its own transaction may be the one that gives way.
          await sql(text).catch(() => undefined);
        }
      })();
      for (let at = 0; at < sent.length; at += 2) await loader.loadAtLast(sent.slice(at, at + 2), {});
      isLoading = false;
      await beside;
      const ids = (await harness.rows('order'))
        .map(({ id }) => String(id))
        .filter((id) => id.startsWith('m-'));
      expect(new Set(ids).size).toBe(ids.length);
      expect(ids).toHaveLength(sent.length + 1);
    });

    it('has columns of its own types, which loads leave alone', async () => {
      await sql(`alter table ${order} add column note integer`);
      await sql(`insert into ${order} (id, note) values ('hand', 5)`);
      await loader.load([track('Order', { n: 2 })]);
      expect((await sql(`select note::varchar as note from ${order} where id = 'hand'`))[0]?.note).toBe('5');
      await expect(loader.load([track('Order', { n: 'text' })])).rejects.toThrow(/the column "note"/);
      expect((await sql(`select note::varchar as note from ${order} where id = 'hand'`))[0]?.note).toBe('5');
    });
  },
);
