import { WarehouseRefused } from '@tributary/core';
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';
import { postgresServer } from '../../../helpers/postgres.ts';
import { noEngine } from '../../connector/suite/harness.ts';
import { signal, TestLoader, track } from '../suite/harness.ts';
import { warehouseConformance } from '../suite/warehouse.conformance.ts';
import { postgresqlHarness, type Quote } from './harness.ts';

const isLong = process.env.TRIBUTARY_TEST_LONG !== undefined;
const server = await postgresServer();

describe.skipIf(server === undefined)('on a real engine', () => {
  afterAll(() => server?.stop());
  warehouseConformance(
    'warehouse-postgresql',
    () => (server === undefined ? noEngine('postgres') : postgresqlHarness(server)),
    isLong ? { loaders: 8, tables: 50, batches: 4 } : undefined,
  );

  describe('a PostgreSQL server', () => {
    let harness: Awaited<ReturnType<typeof postgresqlHarness>>;
    let loader: TestLoader;
    beforeEach(async () => {
      harness = server === undefined ? noEngine('postgres') : await postgresqlHarness(server);
      loader = new TestLoader(harness.open());
      await loader.load([track('Order', { who: 'ann', n: 1 })]);
    });
    afterEach(() => harness.close());
    const who = async () => (await harness.rows('order')).map((row) => row.who).sort();

    it('has its key again where somebody dropped it', async () => {
      await harness.sql(
        (of) => `do $$ declare name text; begin
        select conname into name from pg_constraint where conrelid = '${of('order')}'::regclass and contype = 'p';
        execute format('alter table ${of('order')} drop constraint %I', name); end $$`,
      );
      const events = [track('Order', { who: 'bob' })];
      await loader.load(events);
      await loader.load(events);
      expect(await who()).toEqual(['ann', 'bob']);
    });

    it.each([
      [
        'a constraint that is deferred',
        (of: Quote) => `create table ${of('people')} (who text primary key);
          insert into ${of('people')} values ('ann'), ('bob');
          alter table ${of('order')} add foreign key (who) references ${of('people')} deferrable initially deferred`,
      ],
      [
        'a trigger',
        (of: Quote) => `create function ${of('picky')}() returns trigger language plpgsql as
          $$ begin if new.who = 'mallory' then raise exception 'no %', new.who; end if; return new; end $$;
          create trigger picky before insert on ${of('order')} for each row execute function ${of('picky')}()`,
      ],
    ])('isolates a row that is refused by %s', async (_title, prepare) => {
      await harness.sql(prepare);
      const { result } = await loader.load(
        ['bob', 'mallory', 'bob'].map((name) => track('Order', { who: name })),
      );
      expect(result).toMatchObject({ done: true, refused: [{ table: 'order', row: 1 }] });
      expect(await who()).toEqual(['ann', 'bob', 'bob']);
    });

    it('report 31: that leaves a row out without an error has it in discards', async () => {
      const known = track('Order', { who: 'bob' });
      await loader.load([known]);
      await harness.sql(
        (of) => `create function ${of('silent')}() returns trigger language plpgsql as
          $$ begin if new.who = 'mallory' then return null; end if; return new; end $$;
          create trigger silent before insert on ${of('order')} for each row execute function ${of('silent')}()`,
      );
      const events = [known, track('Order', { who: 'mallory' }), track('Order', { who: 'zoe' })];
      const { result } = await loader.load(events);
      expect(result).toMatchObject({ inserted: { order: 1 }, refused: [{ table: 'order', row: 1 }] });
      expect(await who()).toEqual(['ann', 'bob', 'zoe']);
      expect((await harness.rows('discards')).map(({ message_id }) => message_id)).toEqual([
        events[1]?.message_id,
      ]);
    });

    it('report 5: whose schema was dropped is loaded from then on', async () => {
      await harness.sql((of) => `drop schema ${of('order').split('.')[0]} cascade`);
      await loader.loadAtLast([track('Order', { who: 'bob', n: 2.5 })], {});
      expect(await who()).toEqual(['bob']);
      expect(await harness.rows('tracks')).toHaveLength(1);
    });

    it('report 27: has a column again that was renamed, beside the one with the values of before', async () => {
      await harness.sql((of) => `alter table ${of('order')} rename column who to name`);
      expect((await loader.load([track('Order', { who: 'bob', name: 'cy' })])).drifts).toEqual([
        { table: 'order', column: 'who', kind: 'missing' },
      ]);
      const found = (await harness.rows('order')).map(({ who, name }) => [who, name]);
      expect(found.sort()).toEqual([
        [null, 'ann'],
        ['bob', 'cy'],
      ]);
    });

    it('report 5: that takes the password no more is told as such, with nothing loaded', async () => {
      const role = await harness.role();
      const own = new TestLoader(harness.open(role));
      await harness.sql(() => `alter role ${role.username} password 'another'`);
      await expect(own.load([track('Order', { who: 'bob' })])).rejects.toThrow(WarehouseRefused);
      expect(await harness.open(role).test(signal)).toEqual({
        ok: false,
        reason: 'not authenticated (28P01)',
      });
    });

    it('report 27: that lets tables be changed no more gets what its columns hold', async () => {
      const role = await harness.role();
      const own = new TestLoader(harness.open(role));
      for (const [table, schema] of loader.schema) own.schema.set(table, schema);
      const { drifts } = await own.load([track('Order', { who: 'bob', n: 2.5, fresh: 1 })]);
      expect(drifts.map(({ column, kind }) => [column, kind]).sort()).toEqual([
        ['fresh', 'held'],
        ['n', 'held'],
      ]);
      const row = (await harness.rows('order')).find((one) => one.who === 'bob');
      expect(JSON.parse(String(row?._unmapped))).toEqual({ properties: { n: 2.5, fresh: 1 } });
    });

    it('report 14: that has a column with a precision, or one that it computes, gets nothing into it', async () => {
      await harness.sql(
        (of) => `alter table ${of('order')} alter column n type numeric(5, 1), drop column who,
        add column who text generated always as (id || '!') stored`,
      );
      const { drifts } = await loader.load([track('Order', { who: 'bob', n: 1.23 })]);
      expect(drifts.map(({ column, kind }) => [column, kind]).sort()).toEqual([
        ['n', 'foreign'],
        ['who', 'foreign'],
      ]);
      expect((await harness.rows('discards')).map(({ value }) => value).sort()).toEqual(['"bob"', '1.23']);
    });
  });
});
