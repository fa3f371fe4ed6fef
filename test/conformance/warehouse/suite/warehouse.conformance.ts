import { setTimeout as sleep } from 'node:timers/promises';
import {
  type CanonicalEvent,
  Unavailable,
  type Warehouse,
  WarehouseRefused,
  warehouseName,
} from '@tributary/core';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { signal, TestLoader, track, type WarehouseHarness } from './harness.ts';
import { profileChange } from './profiles.ts';
import { isText, randomProperties, valuesOwed } from './values.ts';

const IS_LONG = process.env.TRIBUTARY_TEST_LONG !== undefined;
/** Loads whose connection is ended, the later ones after more bytes; most batches have fewer. */
const CUTS = IS_LONG ? 60 : 15;
const CUT_BYTES = 30_000;
/** How long a batch may take whose connection was cut. */
const CUT_ENDS_MS = 60_000;
const CUTS_END_MS = IS_LONG ? 900_000 : 180_000;
const SEEDS = IS_LONG ? [1, 2, 3] : [1];
/** Names of events of report 29; the last three are those of one table. */
const ODD_NAMES = ['a/b', 'ä', 'order.completed', 'Order Completed', 'OrderCompleted'];
/** Events of one seed. */
const EVENTS = 300;

/** How much is loaded at once for report 16. */
interface Busy {
  readonly loaders: number;
  readonly tables: number;
  readonly batches: number;
}

/** The contract of `core/ports/warehouse.ts`, with the rows that `core/warehouse` makes. Public reports are named by their number. */
export function warehouseConformance(
  name: string,
  create: () => Promise<WarehouseHarness>,
  busy: Busy = { loaders: 4, tables: 3, batches: 5 },
): void {
  describe(`${name}: the contract of a warehouse`, () => {
    let harness: WarehouseHarness;
    let loader: TestLoader;
    beforeEach(async () => {
      harness = await create();
      loader = new TestLoader(harness.open());
    });
    afterEach(() => harness.close());

    const column = async (table: string, of: string) =>
      (await harness.rows(table)).map((row) => row[of] ?? null).sort();
    /** The values of discards, those in parts put together. */
    const discarded = async () => {
      const rows = await harness.rows('discards');
      const partOf = (row: (typeof rows)[number]) =>
        Number(/part (\d+) of/.exec(String(row.reason))?.[1] ?? 1);
      const values = Map.groupBy(rows, (row) =>
        JSON.stringify([row.position, row.table_name, row.column_name]),
      );
      return [...values.values()].map((parts) =>
        parts
          .sort((a, b) => partOf(a) - partOf(b))
          .map(({ value }) => value)
          .join(''),
      );
    };
    const ids = async (table: string) => (await harness.rows(table)).map(({ id }) => id).sort();
    const rows = (count: number, from = 0) =>
      Array.from({ length: count }, (_, at) => track('Order', { n: from + at }));

    describe('what was loaded', () => {
      it('is told by the newest row of the ledger, for each lane', async () => {
        expect(await loader.warehouse.newest('live', signal)).toBeUndefined();
        await loader.load(rows(3));
        const { result } = await loader.load(rows(2));
        expect(result).toMatchObject({ done: true, inserted: { order: 2, tracks: 2 }, refused: [] });
        await loader.load(rows(1), { lane: 'replay-1' });
        expect(await loader.warehouse.newest('live', signal)).toMatchObject({
          lane: 'live',
          seq: 2,
          ranges: [{ topic: 'events.accepted', partition: 0, from: 3, to: 5 }],
          rows: { order: 2, tracks: 2 },
        });
        expect(await loader.warehouse.newest('replay-1', signal)).toMatchObject({ seq: 1 });
      });

      it('is loaded by one of two loaders that load the same batch at once', async () => {
        await loader.load(rows(1));
        const second = new TestLoader(harness.open());
        const events = rows(200);
        const results = await Promise.all([loader, second].map((one) => one.load(events, { seq: 2 })));
        expect(results.map(({ result }) => result.done).sort()).toEqual([false, true]);
        expect(await ids('order')).toHaveLength(201);
      });

      it('report 6: is in the ledger although the answer to the commit was lost', async () => {
        const events = rows(5);
        await loader.load(rows(1));
        harness.loseNextCommit();
        await expect(loader.load(events)).rejects.toThrow(Unavailable);
        expect(await loader.warehouse.newest('live', signal)).toMatchObject({ seq: 2 });
        // A loader that did not look would be refused, and would change nothing if it were not.
        expect((await loader.load(events, { seq: 2 })).result).toEqual({ done: false });
        expect((await loader.load(events)).result).toMatchObject({ done: true, inserted: { order: 0 } });
        expect(await ids('order')).toHaveLength(6);
      });

      it(
        'report 6 and 24: is loaded once, at whatever moment the connection ends',
        async () => {
          const sent: string[] = [];
          for (let batch = 1; batch <= CUTS; batch++) {
            const events = Array.from({ length: 40 }, (_, at) =>
              track(`Cut ${at % 3}`, { [`p${batch % 7}`]: batch % 5 === 0 ? `x${at}` : at }),
            );
            sent.push(...events.map(({ message_id }) => message_id));
            harness.cutAfter(Math.floor((batch / CUTS) * CUT_BYTES));
            // As a loader: after an unknown answer the ledger decides whether the batch is loaded again.
            const until = performance.now() + CUT_ENDS_MS;
            while (true) {
              try {
                await loader.load(events, { seq: batch });
                break;
              } catch (error) {
                if (!(error instanceof Unavailable) || performance.now() > until) throw error;
              }
              // A closed client refuses at once: without a wait the loop would keep the thread.
              await sleep(20);
              const newest = await loader.warehouse.newest('live', signal).catch(() => undefined);
              if (newest?.seq === batch) break;
            }
          }
          expect(await ids('tracks')).toEqual([...sent].sort());
          const own = await Promise.all(['cut_0', 'cut_1', 'cut_2'].map(ids));
          expect(own.flat().sort()).toEqual([...sent].sort());
        },
        CUTS_END_MS,
      );

      it('report 15: is not doubled by a backfill, however often, also beside live loading', async () => {
        const events = rows(50);
        await loader.load(events.slice(0, 30));
        const backfill = new TestLoader(harness.open());
        await Promise.all([
          backfill.loadAtLast(events, { lane: 'replay-1' }),
          loader.loadAtLast(events.slice(30), {}),
        ]);
        await backfill.load(events, { lane: 'replay-2' });
        expect(await ids('order')).toEqual(events.map(({ message_id }) => message_id).sort());
      });

      it('report 22 and 26: is known by its id, whatever its time', async () => {
        const times = ['2019-01-01T00:00:00.000Z', '2099-01-01T00:00:00.000Z', '2024-02-29T12:00:00.000Z'];
        const { timestamp: _, ...timeless } = track('Order', {});
        const events = [
          ...times.map((timestamp) => track('Order', {}, { timestamp })),
          timeless as CanonicalEvent,
        ];
        await loader.load(events);
        const received_at = '2024-03-08T12:00:00.000Z';
        await loader.load(
          harness.knowsIdsByTime ? events : events.map((event) => ({ ...event, received_at })),
        );
        expect(await column('order', 'timestamp')).toEqual([...times, null].sort());
      });

      it('is begun again where somebody dropped the ledger', async () => {
        await loader.load(rows(2));
        await harness.byHand.dropLedger();
        expect(await loader.warehouse.newest('live', signal)).toBeUndefined();
        expect((await loader.load(rows(1), { seq: 8 })).result).toMatchObject({ done: true });
        expect(await loader.warehouse.newest('live', signal)).toMatchObject({ seq: 8 });
      });
    });

    describe('an engine that is down', () => {
      it('report 5: is unavailable until it is back, and has nothing of the batch', async () => {
        await loader.load(rows(1));
        await harness.fail();
        await expect(loader.load(rows(3))).rejects.toThrow(Unavailable);
        expect(await loader.warehouse.test(signal)).toEqual({ ok: false, reason: expect.any(String) });
        await harness.mend();
        await loader.load(rows(3));
        expect(await ids('order')).toHaveLength(4);
      });

      it('lets go of a call whose signal is aborted', async () => {
        await loader.load(rows(1));
        const stop = AbortSignal.abort();
        await expect(loader.warehouse.newest('live', stop)).rejects.toThrow(Unavailable);
        expect(await loader.warehouse.newest('live', signal)).toMatchObject({ seq: 1 });
      });
    });

    describe('columns', () => {
      it.each([
        ['report 17: whole numbers, then a fraction', [10, 10.5], 'numeric', ['10', '10.5']],
        ['a boolean, then a number', [true, 1], 'text', ['1', 'true']],
        [
          'report 18: a time, then another text',
          ['2024-02-29T12:00:00.120Z', 'N/A'],
          'text',
          ['2024-02-29T12:00:00.120Z', 'N/A'],
        ],
        ['a number, then a text', [7, 'A-1'], 'text', ['7', 'A-1']],
        ['a list, then a text', [[1, 'a'], 'x'], 'text', ['[1,"a"]', 'x']],
        [
          'integers beyond 64 bits',
          [1, JSON.rawJSON('12345678901234567890123')],
          'numeric',
          ['1', '12345678901234567890123'],
        ],
      ] as const)(
        'are widened over full tables before the load that needs it: %s',
        async (_title, values, type, expected) => {
          await loader.load([...rows(500), track('Widened', { v: values[0] as never })]);
          await loader.load([track('Widened', { v: values[1] as never })]);
          // What no decimal of the engine holds is a text.
          const { numeric } = loader.warehouse.limits;
          const isHeld = numeric === undefined || expected.every((text) => text.length <= numeric.whole);
          expect(await harness.type('widened', 'v')).toBe(isHeld ? type : 'text');
          expect(await column('widened', 'v')).toEqual([...expected].sort());
          expect(await ids('discards')).toEqual([]);
        },
      );

      it('report 17: hold numbers to their last digit', async () => {
        const numbers = [
          '9007199254740993',
          '-9223372036854775808',
          '9223372036854775807',
          '0.30000000000000004',
          '1e300',
          '5e-324',
          '0',
        ];
        const events = numbers.map((text) =>
          track('Number', {
            v:
              JSON.parse(text) === Number(text) && String(Number(text)) === text
                ? Number(text)
                : (JSON.rawJSON(text) as never),
          }),
        );
        await loader.load(events);
        const found = (await column('number', 'v')).map(Number);
        expect(found.sort((a, b) => a - b)).toEqual(numbers.map(Number).sort((a, b) => a - b));
        expect(await column('number', 'v')).toContain('9007199254740993');
      });

      it('report 9: hold long texts whole', async () => {
        const texts = ['a'.repeat(513), 'b'.repeat(65_536), 'c'.repeat(70_000), '😀'.repeat(600), ''];
        await loader.load(texts.map((v) => track('Text', { v })));
        const inColumn = (await column('text', 'v')).filter((v) => v !== null);
        const known = [...inColumn, ...(await discarded()).map((v) => JSON.parse(v))];
        expect(known.sort()).toEqual([...texts].sort());
      });

      it('report 28: replace what no warehouse holds, and keep it in discards', async () => {
        const event = track(
          'Zero \0',
          { v: 'a\0b', w: '\ud800', list: ['\0'], 'k\0': 1 },
          { user_id: 'u\0' },
        );
        await loader.load([event, track('Zero', { v: 'good' })]);
        const [row] = (await harness.rows('zero')).filter(({ id }) => id === event.message_id);
        const { parsesJson } = loader.warehouse.limits;
        expect(row).toMatchObject({ w: '\ufffd', list: parsesJson ? null : '["\\u0000"]', k: '1' });
        expect(await column('discards', 'value')).toEqual(
          expect.arrayContaining(['"\\ud800"', ...(parsesJson ? ['["\\u0000"]'] : [])]),
        );
        expect(await ids('zero')).toHaveLength(2);
      });

      it('report 4, 29 and 30: have any name', async () => {
        const properties = {
          all: 1,
          select: 2,
          user: 3,
          order: 4,
          group: 5,
          desc: 6,
          '"': 7,
          'a"b': 8,
          '': 9,
          userId: 10,
          USERID: 11,
          ä: 12,
          日本: 13,
          xmin: 14,
          ctid: 15,
        };
        const { nameLength: letters = 300 } = harness;
        const odd = [...ODD_NAMES, 'n'.repeat(letters), `${'n'.repeat(letters - 1)}m`];
        const others = [
          '"; drop table tracks; --',
          'select_pkey',
          'Text',
          'users',
          '_users',
          'tributary loads',
          ...odd,
        ];
        await loader.load([track('select', properties), ...others.map((name) => track(name, { v: 1 }))]);
        for (const table of ['select_pkey', 'text', '_users', 'tributary_loads'])
          expect((await harness.rows(table)).length).toBeGreaterThan(0);
        expect((await harness.rows('select'))[0]).toMatchObject({
          all: '1',
          select: '2',
          user: '3',
          order: '4',
          group: '5',
          desc: '6',
          a_b: '8',
          _user_id: '10',
          userid: '11',
          a: '12',
        });
        expect(await harness.rows('drop_table_tracks')).toHaveLength(1);
        for (const name of odd) {
          const found = await harness.rows(warehouseName([name], loader.warehouse.limits.nameLength));
          expect(
            found.map(({ event_text }) => event_text),
            name.slice(0, 40),
          ).toContain(name);
        }
      });

      it('are up to a thousand, of which one row has as many as fit', async () => {
        const many = (from: number) =>
          Object.fromEntries(Array.from({ length: 250 }, (_, at) => [`p${from + at}`, at]));
        await loader.load([0, 250, 500, 750].map((from) => track('Wide', many(from))));
        const all = Object.entries({ ...many(0), ...many(250), ...many(500), ...many(750) });
        const one = track('Wide', Object.fromEntries(all.slice(0, harness.rowValues)));
        await loader.load([one]);
        const wide = await harness.rows('wide');
        expect(wide).toHaveLength(5);
        const row = wide.find(({ id }) => id === one.message_id);
        const unmapped = JSON.parse(String(row?._unmapped ?? '{"properties":{}}')).properties;
        for (const [name, value] of Object.entries(one.properties ?? {}))
          expect(String(row?.[name] ?? unmapped[name])).toBe(String(value));
      });

      it.each(SEEDS)(
        'lose no value of events with changing shapes, in any number of batches (%i)',
        async (seed) => {
          const events = randomProperties(EVENTS, seed).map((properties) => track('Shape', properties));
          const rest = [...events];
          for (let size = 1; rest.length > 0; size = (size * 2) % 61) await loader.load(rest.splice(0, size));
          const [found, discards] = await Promise.all([harness.rows('shape'), harness.rows('discards')]);
          expect(found.map(({ id }) => id).sort()).toEqual(events.map(({ message_id }) => message_id).sort());
          const byId = new Map(found.map((row) => [row.id, row]));
          const discarded = Map.groupBy(discards, ({ message_id }) => message_id ?? null);
          const missing = events.flatMap(({ message_id, properties = {} }) => {
            const row = byId.get(message_id) ?? {};
            const unmapped = valuesOwed(JSON.parse(String(row._unmapped ?? '{}')).properties ?? {});
            const beside = new Set([
              ...unmapped.map(([path, value]) => JSON.stringify([path, value])),
              ...(discarded.get(message_id) ?? []).map(({ value }) => value),
            ]);
            const texts = Object.values(row);
            return valuesOwed(properties).filter(([path, value]) => {
              const json = JSON.stringify(value);
              if (beside.has(JSON.stringify([path, JSON.parse(json)])) || beside.has(json)) return false;
              return !texts.some((text) => isText(text, value));
            });
          });
          expect(missing).toEqual([]);
        },
      );
    });

    it('report 16: tables are changed by many loaders at once, whose connections end, and by hand', async () => {
      const loaders = Array.from({ length: busy.loaders }, () => new TestLoader(harness.open()));
      const load = async (one: TestLoader, lane: number) => {
        for (let batch = 0; batch < busy.batches; batch++) {
          const events = Array.from({ length: busy.tables }, (_, table) =>
            track(`Busy ${table}`, { [`p${batch}`]: lane % 2 === 0 ? 1.5 : 'text', [`own${lane}`]: batch }),
          );
          if (lane === 1) harness.cutAfter(batch * CUT_BYTES);
          await one.loadAtLast(events, { lane: `lane-${lane}` });
          if (lane === 0) await harness.byHand.retype?.('busy_0', 'own0', 'text');
        }
      };
      await Promise.all(loaders.map(load));
      const values = Array.from({ length: busy.loaders }, (_, lane) =>
        lane % 2 === 0 ? '1.5' : 'text',
      ).sort();
      for (const table of new Set(['busy_0', `busy_${busy.tables - 1}`])) {
        const found = await harness.rows(table);
        expect(found.map(({ id }) => id).sort()).toEqual([...new Set(found.map(({ id }) => id))].sort());
        expect(found).toHaveLength(busy.loaders * busy.batches);
        for (let at = 0; at < busy.batches; at++)
          expect(
            found
              .map((row) => row[`p${at}`])
              .filter((value) => value !== null)
              .sort(),
          ).toEqual(values);
      }
      expect(await ids('discards')).toEqual([]);
    });

    it('report 2 and 3: two versions of a shape in one batch, which both bring a column, are loaded together', async () => {
      await loader.load(
        Array.from({ length: 20 }, (_, at) =>
          track('Order', at % 2 === 0 ? { fresh: at } : { fresh: at + 0.5, own: 'new' }),
        ),
      );
      const expected = Array.from({ length: 20 }, (_, at) => String(at % 2 === 0 ? at : at + 0.5));
      expect(await column('order', 'fresh')).toEqual(expected.sort());
      expect((await column('order', 'own')).filter((value) => value === 'new')).toHaveLength(10);
    });

    it('a plan that another load made old writes nothing', async () => {
      const time = '2024-02-29T12:00:00.000Z';
      await loader.load([track('Order', { at: time })]);
      const stale: Warehouse = {
        ...loader.warehouse,
        alter: async () => {
          await new TestLoader(harness.open()).load([track('Order', { at: 'never' })], { lane: 'other' });
          return [];
        },
      };
      const late = new TestLoader(stale);
      for (const [table, schema] of loader.schema) late.schema.set(table, schema);
      const event = track('Order', { at: time, more: 1 });
      await expect(late.load([event])).rejects.toThrow(Unavailable);
      await loader.load([event]);
      expect(await column('order', 'at')).toEqual([time, time, 'never']);
    });

    describe('changed by hand', () => {
      it('report 27: tables and columns that were dropped are made again', async () => {
        await loader.load(rows(1));
        await harness.byHand.dropTable('order');
        const { drifts } = await loader.load(rows(1));
        expect(drifts).toEqual([{ table: 'order', kind: 'missing' }]);
        if (harness.byHand.dropColumn === undefined) return;
        await harness.byHand.dropColumn('order', 'n');
        expect((await loader.load(rows(1, 7))).drifts).toEqual([
          { table: 'order', column: 'n', kind: 'missing' },
        ]);
        expect(await column('order', 'n')).toEqual(['7', null]);
      });

      it('report 11: a table that has fewer columns than those of a load gets the others, once', async () => {
        const { dropColumn } = harness.byHand;
        if (dropColumn === undefined) return;
        await loader.load([track('Order', { a: 'x', n: 1 })]);
        for (const name of ['a', 'n', 'sent_at', 'event_text']) await dropColumn('order', name);
        // As one that finds a table of a person: it knows no column of it.
        const own = new TestLoader(harness.open());
        const events = [1, 2].map((n) => track('Order', { a: 'y', n }));
        for (const event of events) await own.load([event]);
        expect(await column('order', 'n')).toEqual(['1', '2', null]);
        expect(await column('order', 'event_text')).toEqual(['Order', 'Order', null]);
      });

      it('report 14: a column of another type gets what it holds, and of a foreign type nothing', async () => {
        const { dropColumn, retype, makeForeign } = harness.byHand;
        if (dropColumn === undefined || retype === undefined || makeForeign === undefined) return;
        await loader.load([track('Order', { a: 'x', b: 1 })]);
        await dropColumn('order', 'a');
        await loader.load([track('Order', { a: 'y' })]);
        await retype('order', 'b', 'text');
        expect((await loader.load([track('Order', { b: 2 })])).drifts).toEqual([]);
        await makeForeign('order', 'b');
        const { drifts } = await loader.load([track('Order', { b: 3 })]);
        expect(drifts).toEqual([expect.objectContaining({ table: 'order', column: 'b', kind: 'foreign' })]);
        expect(await column('discards', 'value')).toEqual(['3']);
        expect(await column('order', '_unmapped')).toContain('{"properties":{"b":3}}');
      });

      it('a column that may not be widened stays, and loading goes on', async () => {
        if (harness.byHand.hold === undefined) return;
        await loader.load([track('Order', { n: 1 })]);
        await harness.byHand.hold('order', 'n');
        const { drifts } = await loader.load([track('Order', { n: 2.5 }), track('Order', { n: 3 })]);
        expect(drifts).toEqual([expect.objectContaining({ table: 'order', column: 'n', kind: 'held' })]);
        expect(await column('order', 'n')).toEqual(['1', '3', null]);
        expect(await column('discards', 'value')).toEqual(['2.5']);
      });

      it('a constraint isolates the guilty rows, which are discarded whole', async () => {
        if (harness.byHand.refuse === undefined) return;
        await loader.load([track('Order', { who: 'first' })]);
        await harness.byHand.refuse('order', 'who', 'mallory');
        const events = Array.from({ length: 300 }, (_, at) =>
          track('Order', { who: at === 7 || at === 250 ? 'mallory' : 'alice' }),
        );
        const { result } = await loader.load(events);
        expect(result).toMatchObject({
          done: true,
          inserted: { order: 298, tracks: 300 },
          refused: [7, 250].map((row) => ({ table: 'order', row, reason: expect.any(String) })),
        });
        const discards = await harness.rows('discards');
        expect(discards.map(({ message_id }) => message_id).sort()).toEqual(
          [7, 250].map((at) => events[at]?.message_id).sort(),
        );
        expect(JSON.parse(String(discards[0]?.value))).toMatchObject({ who: 'mallory', event_text: 'Order' });
      });

      it('report 1 to 3: a batch planned before another loader widened the table still loads', async () => {
        await loader.load([track('Order', { n: 1 })]);
        const other = new TestLoader(harness.open());
        await other.load([track('Order', { n: 'text', more: true })], { lane: 'other' });
        await loader.load([track('Order', { n: 2, own: 1 })]);
        await Promise.all([
          loader.loadAtLast([track('Order', { fresh: 1 })], {}),
          other.loadAtLast([track('Order', { fresh: 1.5 })], { lane: 'other' }),
        ]);
        expect(await column('order', 'n')).toEqual(['1', '2', null, null, 'text']);
        expect(await ids('order')).toHaveLength(5);
      });
    });

    describe('profiles', () => {
      it('are one row each, and follow merges, in any order of the changes', async () => {
        await loader.load([], {
          changes: [
            profileChange('U1', 1, { plan: 'free' }, ['ann']),
            profileChange('U2', 1, { plan: 'pro' }, ['bob']),
          ],
        });
        await loader.load([], {
          changes: [
            profileChange('U1', 5, { plan: 'pro', seats: 3 }, ['ann', 'bob'], {
              kind: 'merged',
              linked: ['U2'],
            }),
          ],
        });
        // A write of the profile before the merge, which another partition had.
        await loader.load([], { changes: [profileChange('U2', 2, { plan: 'late' }, ['bob'])] });
        expect(await harness.rows('users')).toEqual([
          expect.objectContaining({ ucid: 'U1', id: 'ann', plan: 'pro', seats: '3' }),
        ]);
        const open = (await harness.rows('identity_map')).filter(({ valid_to }) => valid_to === null);
        expect(open.map(({ type, value, ucid }) => [type, value, ucid]).sort()).toEqual([
          ['ucid', 'U2', 'U1'],
          ['user_id', 'ann', 'U1'],
          ['user_id', 'bob', 'U1'],
        ]);
        await loader.load([], {
          changes: [profileChange('U1', 6, undefined, [], { kind: 'deleted', linked: ['U2'] })],
        });
        expect(await harness.rows('users')).toEqual([]);
        expect(await harness.rows('identity_map')).toEqual([]);
      });

      it('lose a trait that the profile lost', async () => {
        await loader.load([], { changes: [profileChange('U1', 1, { plan: 'free', seats: 1 }, ['ann'])] });
        await loader.load([], { changes: [profileChange('U1', 2, { plan: 'pro' }, ['ann'])] });
        expect(await harness.rows('users')).toEqual([expect.objectContaining({ plan: 'pro', seats: null })]);
      });

      it('lose a trait in the batch that brought it: no row has a value in its last column', async () => {
        await loader.load([], {
          changes: [
            profileChange('U1', 1, { plan: 'free', zebra: 1 }, ['ann']),
            profileChange('U1', 2, { plan: 'pro' }, ['ann']),
          ],
        });
        expect(await harness.rows('users')).toEqual([expect.objectContaining({ plan: 'pro', zebra: null })]);
      });
    });

    it('a deletion removes all that the warehouse has of a person, with counts', async () => {
      await loader.load(
        [
          track('Order', { n: 1 }, { user_id: 'ann' }),
          track('Order', { n: 2 }, { user_id: 'bob' }),
          track('Order', { n: 'a\ud800' }, { user_id: 'ann', environment: 'development' }),
          track('Other', {}, { user_id: 'zoe', anonymous_id: 'device-of-ann' }),
        ],
        { changes: [profileChange('U1', 1, { plan: 'free' }, ['ann'])] },
      );
      const deleted = await loader.warehouse.delete(
        { user_ids: ['ann'], anonymous_ids: ['device-of-ann'], ucids: ['U1'] },
        signal,
      );
      expect(deleted).toMatchObject({
        tracks: 3,
        order: 2,
        other: 1,
        users: 1,
        identity_map: 1,
        discards: 1,
      });
      expect(await column('tracks', 'user_id')).toEqual(['bob']);
    });

    it('the connection test leaves nothing', async () => {
      expect(await harness.open().test(signal)).toEqual({ ok: true });
      expect(await loader.warehouse.describe(['_tributary_loads', '_tributary_test'], signal)).toEqual(
        new Map(),
      );
    });

    it('a table that refuses every row is told, and nothing is loaded', async () => {
      if (harness.byHand.makeForeign === undefined) return;
      await loader.load(rows(1));
      await harness.byHand.makeForeign('order', 'id');
      await expect(loader.load(rows(1))).rejects.toThrow(WarehouseRefused);
      expect(await loader.warehouse.newest('live', signal)).toMatchObject({ seq: 1 });
    });
  });
}
