import { mkdir, readFile, rmdir, unlink } from 'node:fs/promises';
import { gunzipSync, gzipSync } from 'node:zlib';
import { Unavailable, WarehouseRefused } from '@tributary/core';
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';
import { postgresServer } from '../../../helpers/postgres.ts';
import { noEngine } from '../../connector/suite/harness.ts';
import { signal, TestLoader, track } from '../suite/harness.ts';
import { warehouseConformance } from '../suite/warehouse.conformance.ts';
import { redshiftHarness } from './harness.ts';

const server = await postgresServer();

describe.skipIf(server === undefined)('on PostgreSQL that takes Redshift’s SQL', () => {
  afterAll(() => server?.stop());
  warehouseConformance('warehouse-redshift', () =>
    server === undefined ? noEngine('postgres') : redshiftHarness(server),
  );

  describe('the files of a load', () => {
    let harness: Awaited<ReturnType<typeof redshiftHarness>>;
    let loader: TestLoader;
    beforeEach(async () => {
      harness = server === undefined ? noEngine('postgres') : await redshiftHarness(server);
      loader = new TestLoader(harness.open());
      await loader.load([track('Order', { n: 1 })]);
    });
    afterEach(() => harness.close());
    const ids = async () => (await harness.rows('order')).map(({ id }) => id);

    it('report 34: are deleted only after the commit', async () => {
      expect(await harness.bucket.keys()).toEqual([]);
      await harness.sql(
        (of) => `alter table ${of('_tributary_loads')} add constraint never check (seq <> 2)`,
      );
      const events = [track('Order', { n: 2 })];
      await expect(loader.load(events)).rejects.toThrow(WarehouseRefused);
      expect(await harness.bucket.keys()).toHaveLength(2);
      await harness.sql((of) => `alter table ${of('_tributary_loads')} drop constraint never`);
      harness.loseNextCommit();
      await expect(loader.load(events)).rejects.toThrow(Unavailable);
      const left = await harness.bucket.keys();
      expect(left).toHaveLength(4);
      expect(await ids()).toHaveLength(2);
      // Those of a batch with the same name: the one that was committed, and the one before.
      expect((await loader.load(events, { seq: 2 })).result).toEqual({ done: false });
    });

    it('report 10 and 12: have a path of each attempt, and others beside them are not read', async () => {
      const seen = new Set<string>();
      harness.beforeRead(async (key) => {
        seen.add(key);
        return undefined;
      });
      const second = new TestLoader(harness.open());
      const events = [track('Order', { n: 2 })];
      await Promise.all([loader, second].map((one) => one.load(events, { seq: 2 })));
      expect(seen.size).toBe(4);
      expect(new Set([...seen].map((key) => key.split('/').slice(0, 4).join('/'))).size).toBe(2);
      expect(await ids()).toHaveLength(2);
    });

    it('report 20: that are gone are unavailable, and staged again at the next attempt', async () => {
      harness.beforeRead(async (key) => {
        if (key.endsWith('manifest.json'))
          await unlink(harness.bucket.path(key.replace('manifest.json', 'rows.json.gz')));
        return undefined;
      });
      const events = [track('Order', { n: 2 })];
      await expect(loader.load(events)).rejects.toThrow(Unavailable);
      harness.beforeRead(async () => undefined);
      await loader.load(events);
      expect(await ids()).toHaveLength(2);
    });

    it('report 31: of which a copy takes a row less, without an error, get no commit', async () => {
      harness.beforeRead(async (key) => {
        if (!key.endsWith('.gz')) return undefined;
        const lines = String(gunzipSync(await readFile(harness.bucket.path(key)))).split('\n');
        return gzipSync(lines.slice(1).join('\n'));
      });
      await expect(loader.load([2, 3].map((n) => track('Order', { n })))).rejects.toThrow(Unavailable);
      expect(await ids()).toHaveLength(1);
      expect(await loader.warehouse.newest('live', signal)).toMatchObject({ seq: 1 });
    });

    it('that cannot be removed keep no others, and are tried again with the next loads', async () => {
      const stuck: string[] = [];
      harness.beforeRead(async (key) => {
        if (!key.endsWith('.gz') || stuck.length === 2) return undefined;
        const rows = await readFile(harness.bucket.path(key));
        // A folder is no object that can be removed.
        await unlink(harness.bucket.path(key));
        await mkdir(harness.bucket.path(key));
        stuck.push(key);
        return rows;
      });
      for (const n of [2, 3, 4]) await loader.load([track('Order', { n })]);
      expect(await ids()).toHaveLength(4);
      expect((await harness.bucket.keys()).toSorted()).toEqual(stuck.toSorted());
      for (const key of stuck) await rmdir(harness.bucket.path(key));
      await loader.load([track('Order', { n: 5 })]);
      expect(await harness.bucket.keys()).toEqual([]);
    });

    it('cannot be put with a wrong key: told without it', async () => {
      const own = harness.open({ access_key_id: 'UNKNOWN', secret_access_key: 'very-secret-key' });
      const result = await own.test(signal);
      expect(result).toEqual({ ok: false, reason: expect.stringMatching(/^the bucket: answered 403/) });
      expect(JSON.stringify(result)).not.toContain('very-secret-key');
    });
  });
});
