import {
  addCounts,
  Fenced,
  MAX_NAMES,
  OTHER_NAME,
  type RunCounts,
  type RunQuery,
  type RunTally,
  type VolumeCounters,
  type VolumeIncrement,
} from '@tributary/core';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Child } from '../../../helpers/child.ts';
import { NAMES } from '../programs/applier.ts';
import {
  batch,
  DAY_MS,
  HOUR_MS,
  increment,
  PARTITION,
  thisHour,
  type VolumeCountersHarness,
  type VolumeCountersStore,
  WORKSPACE_ID,
} from './harness.ts';

const KILLS = process.env.TRIBUTARY_TEST_LONG ? 30 : 2;
const KILLS_WITHIN_MS = 10_000 + KILLS * 15_000;
const APPLIER = new URL('../programs/applier.ts', import.meta.url);

/** The contract of the `VolumeCounters` port. */
export function volumeCountersConformance(harness: VolumeCountersHarness): void {
  describe(`the ${harness.name} volume counters`, () => {
    let store: VolumeCountersStore;
    let counters: VolumeCounters;
    const children: Child[] = [];
    beforeEach(async () => {
      store = await harness.create();
      counters = await harness.open(store.settings);
    });
    afterEach(async () => {
      await Promise.all(children.splice(0).map((child) => child.kill()));
      await counters.close();
      await store.dispose();
    });

    const start = (batches: number) => {
      const child = new Child(APPLIER, [harness.module, store.settings, String(batches), String(thisHour())]);
      children.push(child);
      return child;
    };
    const read = (changes: object = {}) =>
      counters.read({
        workspaceId: WORKSPACE_ID,
        fromHour: thisHour() - 2 * HOUR_MS,
        toHour: thisHour() + HOUR_MS,
        ...changes,
      });
    const counts = async (changes: object = {}) =>
      (await read(changes)).map(({ eventName, count }) => [eventName, count]);

    describe('a batch', () => {
      it('moves the counts and the applied offset together', async () => {
        expect(await counters.applied(PARTITION)).toBe(0);
        await counters.apply(batch(0, [increment('a', 3), increment('b', 1)], { to: 10 }));
        expect(await counters.applied(PARTITION)).toBe(10);
        await counters.apply(batch(10, [increment('a', 2)], { to: 12 }));
        expect(await counts()).toEqual([
          ['a', 5],
          ['b', 1],
        ]);
      });

      it('that is applied twice counts once', async () => {
        const twice = batch(0, [increment('a', 3)], { keyUses: [{ keyId: 'k', at: 5 }] });
        await counters.apply(twice);
        await expect(counters.apply(twice)).rejects.toThrow(Fenced);
        expect(await counts()).toEqual([['a', 3]]);
        expect(await counters.applied(PARTITION)).toBe(1);
      });

      it('that starts at another offset is fenced and stores nothing', async () => {
        await counters.apply(batch(0, [], { to: 5 }));
        for (const from of [0, 4, 6]) {
          const keyUses = [{ keyId: 'k', at: 1 }];
          await expect(counters.apply(batch(from, [increment('a', 1)], { keyUses }))).rejects.toThrow(Fenced);
        }
        expect(await counters.applied(PARTITION)).toBe(5);
        expect(await read()).toEqual([]);
        expect(await counters.lastUsed(['k'])).toEqual(new Map());
      });

      it('without increments moves the offset', async () => {
        await counters.apply(batch(0, [], { to: 1_000_000_000_000 }));
        expect(await counters.applied(PARTITION)).toBe(1_000_000_000_000);
      });

      it('can move the offset back, as the first of a recreated topic does', async () => {
        await counters.apply(batch(0, [increment('a', 1)], { to: 500 }));
        const first = batch(500, [increment('a', 2)], { to: 3 });
        await counters.apply(first);
        await expect(counters.apply(first)).rejects.toThrow(Fenced);
        await counters.apply(batch(3, [increment('a', 4)], { to: 4 }));
        expect(await counters.applied(PARTITION)).toBe(4);
        expect(await counts()).toEqual([['a', 7]]);
      });

      it('can contain the same count twice', async () => {
        await counters.apply(batch(0, [increment('a', 1), increment('a', 2)]));
        expect(await counts()).toEqual([['a', 3]]);
      });

      it('of one partition does not affect another', async () => {
        await counters.apply(batch(0, [increment('a', 1)], { to: 7 }));
        await counters.apply(batch(0, [increment('a', 2)], { partition: 1, to: 8 }));
        await counters.apply(batch(0, [increment('a', 4)], { topic: 'events.rejected', to: 9 }));
        expect(await counters.applied(PARTITION)).toBe(7);
        expect(await counters.applied({ ...PARTITION, partition: 1 })).toBe(8);
        expect(await counters.applied({ ...PARTITION, topic: 'events.rejected' })).toBe(9);
        expect(await counts()).toEqual([['a', 7]]);
      });

      it('is kept through closing and opening', async () => {
        await counters.apply(batch(0, [increment('a', 1)], { keyUses: [{ keyId: 'k', at: 5 }] }));
        await counters.close();
        counters = await harness.open(store.settings);
        expect(await counters.applied(PARTITION)).toBe(1);
        expect(await counts()).toEqual([['a', 1]]);
        expect(await counters.lastUsed(['k'])).toEqual(new Map([['k', 5]]));
      });
    });

    describe('a read', () => {
      it('returns the requested hours, both ends included, oldest first, then by type and name', async () => {
        const at = (hours: number) => thisHour() - hours * HOUR_MS;
        await counters.apply(
          batch(0, [
            increment('b', 1, { hour: at(1) }),
            increment('a', 1, { hour: at(1) }),
            increment('a', 1, { hour: at(1), eventType: 'page' }),
            increment('', 1, { hour: at(2), eventType: 'identify' }),
            increment('early', 1, { hour: at(3) }),
            increment('late', 1, { hour: at(0) }),
          ]),
        );
        expect(await read({ fromHour: at(2), toHour: at(1) })).toEqual([
          { eventType: 'identify', eventName: '', hour: at(2), count: 1 },
          { eventType: 'page', eventName: 'a', hour: at(1), count: 1 },
          { eventType: 'track', eventName: 'a', hour: at(1), count: 1 },
          { eventType: 'track', eventName: 'b', hour: at(1), count: 1 },
        ]);
      });

      it('sums environments, or returns one', async () => {
        const development = { environment: 'development' } as const;
        await counters.apply(batch(0, [increment('a', 1), increment('a', 2, development)]));
        expect(await counts()).toEqual([['a', 3]]);
        expect(await counts({ environment: 'production' })).toEqual([['a', 1]]);
        expect(await counts(development)).toEqual([['a', 2]]);
      });

      it('returns only events of the workspace', async () => {
        await counters.apply(batch(0, [increment('a', 1), increment('b', 1, { workspaceId: 'another' })]));
        expect(await counts()).toEqual([['a', 1]]);
        expect(await counts({ workspaceId: 'a third' })).toEqual([]);
      });

      it('looks back 720 hours, across days', async () => {
        const hours = [0, 1, 23, 24, 25, 719];
        const increments = hours.map((back) =>
          increment('a', back + 1, { hour: thisHour() - back * HOUR_MS }),
        );
        await counters.apply(batch(0, increments));
        await counters.apply(batch(1, []));
        const rows = await read({ fromHour: thisHour() - 719 * HOUR_MS });
        expect(rows.map(({ count }) => count)).toEqual([720, 26, 25, 24, 2, 1]);
      });

      it('returns names of any characters unchanged', async () => {
        const names = ['', ' ', 'a\0b', 'a\0c', 'é', 'e\u0301', '🚀', 'x'.repeat(1_000), ':|,', '__proto__'];
        await counters.apply(
          batch(
            0,
            names.map((name) => increment(name, 1)),
          ),
        );
        expect(new Set((await read()).map(({ eventName }) => eventName))).toEqual(new Set(names));
      });
    });

    describe('names', () => {
      const many = (count: number, changes: Partial<VolumeIncrement> = {}) =>
        Array.from({ length: count }, (_, n) => increment(`name-${n}`, 1, changes));

      it('beyond the limit of a partition, workspace and day are counted together', async () => {
        await counters.apply(batch(0, many(MAX_NAMES - 1)));
        await counters.apply(batch(1, [increment('last', 1), increment('over', 2), increment('more', 3)]));
        await counters.apply(batch(2, [increment('name-0', 1), increment('last', 1), increment('over', 1)]));
        const rows = new Map((await read()).map(({ eventName, count }) => [eventName, count]));
        expect(rows.size).toBe(MAX_NAMES + 1);
        expect([rows.get('name-0'), rows.get('last'), rows.get(OTHER_NAME)]).toEqual([2, 2, 6]);
      });

      it('do not use the limit of another partition, workspace or day', async () => {
        await counters.apply(batch(0, many(MAX_NAMES)));
        await counters.apply(
          batch(1, [
            increment('elsewhere', 1, { workspaceId: 'another' }),
            increment('yesterday', 1, { hour: thisHour() - DAY_MS }),
            increment('over', 1),
          ]),
        );
        await counters.apply(batch(0, [increment('other partition', 1)], { partition: 1 }));
        expect(await counts({ workspaceId: 'another' })).toEqual([['elsewhere', 1]]);
        const yesterday = { fromHour: thisHour() - DAY_MS, toHour: thisHour() - DAY_MS };
        expect(await counts(yesterday)).toEqual([['yesterday', 1]]);
        const today = new Map((await read()).map(({ eventName, count }) => [eventName, count]));
        expect([today.get('other partition'), today.get(OTHER_NAME)]).toEqual([1, 1]);
      });
    });

    describe('key uses', () => {
      it('keep the newest, in any order of arrival', async () => {
        await counters.apply(batch(0, [], { keyUses: [{ keyId: 'k', at: 5 }] }));
        await counters.touch({ keyId: 'k', at: 3 });
        expect(await counters.lastUsed(['k'])).toEqual(new Map([['k', 5]]));
        await counters.touch({ keyId: 'k', at: 1_700_000_000_000 });
        await counters.apply(batch(1, [], { keyUses: [{ keyId: 'k', at: 9 }] }));
        expect(await counters.lastUsed(['k'])).toEqual(new Map([['k', 1_700_000_000_000]]));
      });

      it('are absent for keys never seen', async () => {
        await counters.touch({ keyId: 'k', at: 3 });
        expect(await counters.lastUsed(['x', 'k', 'y'])).toEqual(new Map([['k', 3]]));
        expect(await counters.lastUsed([])).toEqual(new Map());
      });
    });

    describe('runs of transformations', () => {
      const tally = (counts: RunCounts, changes: Partial<RunTally> = {}) => ({
        workspaceId: WORKSPACE_ID,
        transformationId: 't',
        hour: thisHour(),
        counts,
        ...changes,
      });
      const byHour = (changes: Partial<RunQuery> = {}) =>
        counters.runs({
          workspaceId: WORKSPACE_ID,
          transformationId: 't',
          fromHour: thisHour(),
          toHour: thisHour(),
          ...changes,
        });

      const runs = async (changes: Partial<RunQuery> = {}) =>
        (await byHour(changes)).map(({ counts }) => counts).reduce(addCounts, {});

      it('are empty before the first', async () => {
        expect(await byHour()).toEqual([]);
        expect(await runs()).toEqual({});
      });

      it('add up over all processes, and are kept through a restart', async () => {
        const other = await harness.open(store.settings);
        await Promise.all([
          counters.addRuns([tally({ runs: 3, ms4: 2 }), tally({ runs: 1 })]),
          other.addRuns([tally({ runs: 4, errors: 1 })]),
        ]);
        await other.close();
        await counters.close();
        counters = await harness.open(store.settings);
        expect(await runs()).toEqual({ runs: 8, ms4: 2, errors: 1 });
      });

      it('are returned for a transformation of a workspace, and the requested hours', async () => {
        const ago = (hours: number) => thisHour() - hours * HOUR_MS;
        await counters.addRuns([
          ...[0, 1, 25, 719, 720].map((hours) => tally({ runs: hours + 1 }, { hour: ago(hours) })),
          tally({ runs: 1_000_000 }, { workspaceId: 'another' }),
          tally({ runs: 1_000_000 }, { transformationId: 'other' }),
        ]);
        expect(await runs()).toEqual({ runs: 1 });
        expect(await runs({ fromHour: ago(25), toHour: ago(1) })).toEqual({ runs: 28 });
        expect(await runs({ fromHour: ago(719) })).toEqual({ runs: 1 + 2 + 26 + 720 });
        expect(await byHour({ fromHour: ago(719) })).toEqual(
          [719, 25, 1, 0].map((hours) => ({ hour: ago(hours), counts: { runs: hours + 1 } })),
        );
      });
    });

    it('closes twice', async () => {
      await counters.close();
      await counters.close();
    });

    it('counts like a map', async () => {
      const one = fc
        .tuple(fc.constantFrom('a', 'b', 'c'), fc.integer({ min: 1, max: 9 }), fc.nat({ max: 2 }))
        .map(([name, count, back]) => increment(name, count, { hour: thisHour() - back * HOUR_MS }));
      const partitions = [0, 0, 0];
      const expected = new Map<string, number>();
      await fc.assert(
        fc.asyncProperty(
          fc.nat({ max: 2 }),
          fc.array(one, { maxLength: 10 }),
          async (partition, increments) => {
            const from = partitions[partition] ?? 0;
            await counters.apply(batch(from, increments, { partition, to: from + 2 }));
            partitions[partition] = from + 2;
            for (const { eventName, hour, count } of increments) {
              const key = `${hour} ${eventName}`;
              expected.set(key, (expected.get(key) ?? 0) + count);
            }
            const rows = await read();
            expect(
              new Map(rows.map(({ hour, eventName, count }) => [`${hour} ${eventName}`, count])),
            ).toEqual(expected);
          },
        ),
        { numRuns: 40 },
      );
    });

    it('counts each batch once if several processes count one partition', async () => {
      const appliers = [start(30), start(30), start(30)];
      await Promise.all(appliers.map((applier) => applier.wrote(1)));
      for (const applier of appliers) applier.go();
      const told = await Promise.all(appliers.map((applier) => applier.finished()));
      expect(await counters.applied(PARTITION)).toBe(90);
      expect(await counts()).toEqual(NAMES.map((name) => [name, 90]));
      const offsets = told.flatMap((lines) => lines.slice(1) as number[]);
      expect(offsets.sort((a, b) => a - b)).toEqual(Array.from({ length: 90 }, (_, n) => n + 1));
    });

    it(
      'keeps counts and offset together when a process is killed',
      async () => {
        for (let kill = 0; kill < KILLS; kill++) {
          const child = start(1_000_000);
          await child.wrote(1);
          child.go();
          await child.wrote(3 + kill * 5);
          await child.kill();
          const applied = await counters.applied(PARTITION);
          expect(applied).toBeGreaterThanOrEqual(Number(child.lines.at(-1)));
          expect(await counts()).toEqual(NAMES.map((name) => [name, applied]));
          expect(await counters.lastUsed(['k'])).toEqual(new Map([['k', applied]]));
        }
      },
      KILLS_WITHIN_MS,
    );
  });
}
