import {
  type Counters,
  Fenced,
  type FunnelDimension,
  type FunnelIncrement,
  type FunnelQuery,
  type FunnelRow,
  MAX_FUNNEL_NAMES,
  OTHER_NAME,
} from '@tributary/core';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  batch,
  type CountersHarness,
  type CreatedCounters,
  DAY_MS,
  HOUR_MS,
  increment,
  MINUTE_MS,
  PARTITION,
  thisHour,
  WORKSPACE_ID,
} from './harness.ts';
import { describeProcesses } from './processes.ts';
import { describeVolume } from './volume.ts';

/** The contract of the `Counters` port. */
export function countersConformance(harness: CountersHarness): void {
  describe(`the ${harness.name} counters`, () => {
    let created: CreatedCounters;
    let store: Counters;
    beforeEach(async () => {
      created = await harness.create();
      store = await harness.open(created.settings);
    });
    afterEach(async () => {
      await store.close();
      await created.dispose();
    });

    const read = (changes: Partial<FunnelQuery> = {}): Promise<readonly FunnelRow[]> =>
      store.funnel({
        workspaceId: WORKSPACE_ID,
        interval: 'hour',
        from: thisHour(),
        to: thisHour() + HOUR_MS,
        filter: {},
        groupBy: [],
        ...changes,
      });
    const received = async (changes: Partial<FunnelQuery> = {}) =>
      (await read(changes)).reduce((sum, { counts }) => sum + (counts.received ?? 0), 0);
    const byName = async (changes: Partial<FunnelQuery> = {}) =>
      Object.fromEntries(
        (await read({ groupBy: ['name'], ...changes })).map(({ group, counts }) => [
          group.name,
          counts.received,
        ]),
      );
    const samples = (changes: object = {}) =>
      store.samples({
        workspaceId: WORKSPACE_ID,
        from: thisHour() - 2 * DAY_MS,
        to: thisHour() + HOUR_MS,
        filter: {},
        measure: 'received',
        limit: 10,
        ...changes,
      });

    describe('a batch', () => {
      it('moves the counts and the applied offset together', async () => {
        expect(await store.applied(PARTITION)).toBe(0);
        await store.apply(batch(0, [increment({ count: 3 }), increment({ name: 'b' })], { to: 10 }));
        expect(await store.applied(PARTITION)).toBe(10);
        await store.apply(batch(10, [increment({ count: 2 })], { to: 12 }));
        expect(await byName()).toEqual({ Paid: 5, b: 1 });
        expect(await received()).toBe(6);
      });

      it('that starts at another offset is fenced and stores nothing', async () => {
        await store.apply(batch(0, [], { to: 5 }));
        for (const from of [0, 4, 6])
          await expect(store.apply(batch(from, [increment()]))).rejects.toThrow(Fenced);
        expect(await store.applied(PARTITION)).toBe(5);
        expect(await read()).toEqual([]);
        expect(await samples()).toEqual([]);
      });

      it('can move the offset back, as the first of a recreated topic does', async () => {
        await store.apply(batch(0, [increment()], { to: 500 }));
        const first = batch(500, [increment({ count: 2 })], { to: 3 });
        await store.apply(first);
        await expect(store.apply(first)).rejects.toThrow(Fenced);
        await store.apply(batch(3, [increment({ count: 4 })], { to: 4 }));
        expect(await received()).toBe(7);
      });

      it('is kept through closing and opening', async () => {
        await store.apply(batch(0, [increment()]));
        await store.close();
        store = await harness.open(created.settings);
        expect(await store.applied(PARTITION)).toBe(1);
        expect(await received()).toBe(1);
        expect(await samples()).toEqual(['m1']);
      });
    });

    describe('a read', () => {
      it('returns the requested intervals, oldest first: minutes, hours and days', async () => {
        const at = (minutes: number) => thisHour() - minutes * MINUTE_MS;
        await store.apply(
          batch(
            0,
            [0, 1, 2, 60, 60 * 24, 60 * 24 * 30].map((n) => increment({ minute: at(n) })),
          ),
        );
        const starts = async (interval: FunnelQuery['interval'], from: number, ms: number) => {
          const to = Math.ceil((thisHour() + 1) / ms) * ms;
          const rows = await read({ interval, from: Math.floor(from / ms) * ms, to });
          return rows.map(({ start: begun, counts }) => [begun, counts.received]);
        };
        expect(await starts('minute', at(1), MINUTE_MS)).toEqual([
          [at(1), 1],
          [at(0), 1],
        ]);
        expect((await starts('hour', at(60 * 24 * 30), HOUR_MS)).map(([begun]) => begun)).toEqual([
          at(60 * 24 * 30),
          at(60 * 24),
          at(60),
          at(0),
        ]);
        const days = await starts('day', at(60 * 24 * 30), DAY_MS);
        expect(days.reduce((sum, [, count]) => sum + (count ?? 0), 0)).toBe(6);
        expect(days[0]).toEqual([Math.floor(at(60 * 24 * 30) / DAY_MS) * DAY_MS, 1]);
      });

      it('counts an increment for each of its measures, with their reasons', async () => {
        await store.apply(
          batch(0, [
            increment({ count: 2 }),
            increment({ measures: 'received+rejected/c1/type', count: 3 }),
            increment({ measures: 'dead/expired', rule: 'r1', destination: 'd1', count: 4 }),
          ]),
        );
        expect(await read()).toMatchObject([
          { counts: { received: 5, accepted: 2, 'rejected/c1/type': 3, 'dead/expired': 4 } },
        ]);
      });

      it('adds up latencies by bucket', async () => {
        const delivered = { measures: 'delivered_first', rule: 'r1', destination: 'd1' };
        await store.apply(
          batch(0, [
            increment({ ...delivered, count: 3, latencies: { 40: 2, 41: 1 } }),
            increment({ ...delivered, name: 'b', count: 2, latencies: { 41: 2 } }),
          ]),
        );
        expect(await read()).toMatchObject([{ latencies: { 40: 2, 41: 3 } }]);
        expect(await read({ filter: { name: 'b' } })).toMatchObject([{ latencies: { 41: 2 } }]);
      });

      it('adds up increments without a name with the others', async () => {
        const { name: _, ...nameless } = increment({ measures: 'filtered/event_name', rule: 'r1' });
        await store.apply(batch(0, [increment(), nameless]));
        expect(await read()).toMatchObject([{ counts: { received: 1, 'filtered/event_name': 1 } }]);
        expect(await byName()).toEqual({ Paid: 1 });
      });

      it('sums all intervals of a group on request', async () => {
        await store.apply(batch(0, [increment({ count: 2 }), increment({ minute: thisHour() - HOUR_MS })]));
        const from = thisHour() - HOUR_MS;
        expect(await read({ from, groupBy: ['name'], summed: true })).toMatchObject([
          { start: from, group: { name: 'Paid' }, counts: { received: 3 } },
        ]);
      });

      it('sums days by name, over all other dimensions or filtered', async () => {
        const day = Math.floor(thisHour() / DAY_MS) * DAY_MS;
        const byDay = { interval: 'day', from: day, to: day + DAY_MS, groupBy: ['type', 'name'] } as const;
        const odd = 'a|b';
        await store.apply(
          batch(0, [
            increment({ count: 2 }),
            increment({ count: 3, source: 's2' }),
            increment({ count: 4, type: 'page' }),
            increment({ count: 5, name: odd, environment: 'development' }),
            increment({ measures: 'delivered_first', rule: 'r1', destination: 'd1', latencies: { 9: 1 } }),
          ]),
        );
        const found = async (filter: FunnelQuery['filter']) =>
          new Map(
            (await read({ ...byDay, filter })).map(({ group, counts, latencies }) => [
              `${group.type} ${group.name}`,
              [counts.received ?? 0, counts.delivered_first ?? 0, latencies[9] ?? 0],
            ]),
          );
        const all = { 'track Paid': [5, 1, 1], 'page Paid': [4, 0, 0], [`track ${odd}`]: [5, 0, 0] };
        expect(await found({})).toEqual(new Map(Object.entries(all)));
        expect(await found({ environment: 'development' })).toEqual(new Map([[`track ${odd}`, [5, 0, 0]]]));
        expect(await found({ type: 'page' })).toEqual(new Map([['page Paid', [4, 0, 0]]]));
        expect(await found({ source: 's2' })).toEqual(new Map([['track Paid', [3, 0, 0]]]));
        expect(await found({ rule: 'r1' })).toEqual(new Map([['track Paid', [0, 1, 1]]]));
      });
    });

    describe('names', () => {
      it('beyond the limit of a workspace and day are counted together', async () => {
        const many = Array.from({ length: MAX_FUNNEL_NAMES - 1 }, (_, n) => increment({ name: `name-${n}` }));
        await store.apply(batch(0, many));
        await store.apply(
          batch(1, [
            increment({ name: 'last' }),
            increment({ name: 'over', count: 2 }),
            increment({ name: 'more', count: 3 }),
            increment({ name: 'over', workspaceId: 'another' }),
            increment({ name: 'over', minute: thisHour() - DAY_MS }),
          ]),
        );
        await store.apply(batch(2, [increment({ name: 'name-0' }), increment({ name: 'over' })]));
        const names = await byName();
        expect(Object.keys(names)).toHaveLength(MAX_FUNNEL_NAMES + 1);
        expect([names['name-0'], names.last, names[OTHER_NAME]]).toEqual([2, 1, 6]);
        expect(await received({ filter: { name: OTHER_NAME } })).toBe(6);
        expect(await byName({ workspaceId: 'another' })).toEqual({ over: 1 });
        const yesterday = thisHour() - DAY_MS;
        expect(await byName({ from: yesterday, to: yesterday + HOUR_MS })).toEqual({ over: 1 });
      });
    });

    describe('samples', () => {
      it('are the last ten of each cell, newest hour first', async () => {
        const ids = (prefix: string, count: number) =>
          Array.from({ length: count }, (_, n) => `${prefix}${n}`);
        await store.apply(batch(0, [increment({ samples: ids('a', 7) })]));
        await store.apply(batch(1, [increment({ samples: ids('b', 6) })]));
        await store.apply(batch(2, [increment({ samples: ['old'], minute: thisHour() - HOUR_MS })]));
        expect(await samples()).toEqual([...ids('b', 6).reverse(), 'a6', 'a5', 'a4', 'a3']);
        expect(await samples({ limit: 20 })).toHaveLength(11);
        expect((await samples({ limit: 20 })).at(-1)).toBe('old');
      });

      it('are found by measure, reason and dimension', async () => {
        const dead = (reason: string, rule: string) =>
          increment({ measures: `dead/${reason}`, rule, destination: 'd1', samples: [`${reason}-${rule}`] });
        await store.apply(batch(0, [increment(), dead('expired', 'r1'), dead('rule', 'r2')]));
        expect(new Set(await samples({ measure: 'dead' }))).toEqual(new Set(['expired-r1', 'rule-r2']));
        expect(await samples({ measure: 'dead', reason: 'rule' })).toEqual(['rule-r2']);
        expect(await samples({ measure: 'dead', filter: { rule: 'r1', name: 'Paid' } })).toEqual([
          'expired-r1',
        ]);
        expect(await samples({ measure: 'accepted' })).toEqual(['m1']);
        expect(await samples({ measure: 'delivered_first' })).toEqual([]);
      });
    });

    describe('bytes', () => {
      const OTHER = '0192f0c1-7c7b-7d53-8a55-1d0c5f1e2a02';
      const bytes = (scope: string, hour: number, received: number, written: number) => ({
        scope,
        hour,
        received,
        written,
      });
      const sorted = async (interval: 'hour' | 'day', start: number) =>
        [...(await store.bytes(interval, start))].sort((a, b) => (a.scope < b.scope ? -1 : 1));

      it('are summed by scope, hour and day, and a batch that is applied twice counts once', async () => {
        const hour = thisHour();
        const day = hour - (hour % DAY_MS);
        const first = batch(0, [increment()], {
          bytes: [bytes(WORKSPACE_ID, hour, 3, 2 ** 40), bytes('org:7', hour, 0, 5)],
        });
        await store.apply(first);
        await expect(store.apply(first)).rejects.toThrow(Fenced);
        await store.apply(
          batch(1, [], { bytes: [bytes(WORKSPACE_ID, hour, 1, 10), bytes(OTHER, hour, 2, 0)] }),
        );
        const expected = [
          { scope: WORKSPACE_ID, received: 4, written: 2 ** 40 + 10 },
          { scope: OTHER, received: 2, written: 0 },
          { scope: 'org:7', received: 0, written: 5 },
        ];
        expect(await sorted('hour', hour)).toEqual(expected);
        expect(await sorted('day', day)).toEqual(expected);
        expect(await store.bytes('hour', hour - HOUR_MS)).toEqual([]);
        expect(await received()).toBe(1);
      });

      it('of hours of one day are one sum of the day', async () => {
        const day = thisHour() - (thisHour() % DAY_MS);
        const hours = [day, day + HOUR_MS].map((hour, at) => ({
          ...bytes(OTHER, hour, 1, 2),
          expected: 9 - 16 * at,
        }));
        await store.apply(batch(0, [], { bytes: hours }));
        expect(await sorted('day', day)).toEqual([{ scope: OTHER, received: 2, written: 4, expected: 2 }]);
      });
    });

    it('drops counts beyond the retention', async () => {
      let now = thisHour();
      await store.close();
      store = await harness.open(created.settings, () => now);
      await store.apply(batch(0, [increment()]));
      now += 3 * HOUR_MS;
      await store.apply(batch(1, [increment({ count: 2 }), increment({ minute: thisHour() - 40 * DAY_MS })]));
      await store.apply(batch(2, []));
      const minute = { interval: 'minute', from: thisHour(), to: thisHour() + MINUTE_MS } as const;
      expect(await received(minute)).toBeLessThanOrEqual(1);
      expect(await received()).toBe(3);
      const old = thisHour() - 40 * DAY_MS;
      expect(await read({ from: old, to: old + HOUR_MS })).toEqual([]);
    });

    it('closes twice', async () => {
      await store.close();
      await store.close();
    });

    it('counts and groups like a list of all increments', async () => {
      const all: FunnelIncrement[] = [];
      let offset = 0;
      const one = fc
        .record({
          environment: fc.constantFrom('production' as const, 'development' as const),
          source: fc.constantFrom('s1', 's2', ''),
          key: fc.constantFrom('k1', ''),
          type: fc.constantFrom('track' as const, 'page' as const),
          name: fc.constantFrom('a', 'b'),
          rule: fc.constantFrom('', 'r1', 'r2'),
          destination: fc.constantFrom('', 'd1'),
          count: fc.integer({ min: 1, max: 9 }),
          hours: fc.nat({ max: 2 }),
        })
        .map(({ hours, ...fields }) => increment({ ...fields, minute: thisHour() - hours * HOUR_MS }));
      const dimensions: readonly FunnelDimension[] = [
        'environment',
        'source',
        'type',
        'name',
        'rule',
        'destination',
      ];
      await fc.assert(
        fc.asyncProperty(
          fc.array(one, { maxLength: 6 }),
          fc.subarray([...dimensions], { maxLength: 3 }),
          fc.record(
            {
              environment: fc.constantFrom('production', 'development'),
              source: fc.constantFrom('s1', 's2'),
              name: fc.constantFrom('a', 'b'),
              rule: fc.constantFrom('r1', ''),
            },
            { requiredKeys: [] },
          ),
          async (increments, groupBy, filter) => {
            await store.apply(batch(offset, increments));
            offset += 1;
            all.push(...increments);
            const expected = new Map<string, number>();
            for (const each of all) {
              const isTaken = Object.entries(filter).every(
                ([dimension, value]) => each[dimension as FunnelDimension] === value,
              );
              if (!isTaken) continue;
              const key = JSON.stringify([each.minute, ...groupBy.map((dimension) => each[dimension])]);
              expected.set(key, (expected.get(key) ?? 0) + each.count);
            }
            const rows = await read({ from: thisHour() - 2 * HOUR_MS, groupBy, filter });
            const found = rows.map(
              ({ start: begun, group, counts }) =>
                [
                  JSON.stringify([begun, ...groupBy.map((dimension) => group[dimension])]),
                  counts.received,
                ] as const,
            );
            expect(new Map(found)).toEqual(expected);
            expect(found).toHaveLength(expected.size);
          },
        ),
        { numRuns: 60 },
      );
    });

    describeVolume(
      harness,
      () => created,
      () => store,
    );
    describeProcesses(
      harness,
      () => created,
      () => store,
    );
  });
}
