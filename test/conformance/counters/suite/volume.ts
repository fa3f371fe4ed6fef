import {
  addCounts,
  type Counters,
  Fenced,
  MAX_VOLUME_NAMES,
  OTHER_NAME,
  type RunCounts,
  type RunQuery,
  type RunTally,
  type VolumeQuery,
} from '@tributary/core';
import { describe, expect, it } from 'vitest';
import {
  batch,
  type CountersHarness,
  type CreatedCounters,
  DAY_MS,
  HOUR_MS,
  increment,
  MINUTE_MS,
  thisHour,
  WORKSPACE_ID,
} from './harness.ts';

/** What is not counted by outcome: accepted events by name, the last uses of keys, and runs of transformations. */
export function describeVolume(
  harness: CountersHarness,
  created: () => CreatedCounters,
  counters: () => Counters,
): void {
  const reopened = async <T>(read: (opened: Counters) => Promise<T>): Promise<T> => {
    const other = await harness.open(created().settings);
    try {
      return await read(other);
    } finally {
      await other.close();
    }
  };

  describe('the volume', () => {
    const read = (changes: Partial<VolumeQuery> = {}) =>
      counters().volume({
        workspaceId: WORKSPACE_ID,
        fromHour: thisHour() - 2 * HOUR_MS,
        toHour: thisHour(),
        ...changes,
      });
    const counts = async (changes: Partial<VolumeQuery> = {}) =>
      (await read(changes)).map(({ eventName, count }) => [eventName, count]);

    it('is the sum of accepted events over minutes, sources and keys, whatever else is counted of them', async () => {
      const increments = [
        increment({ count: 2 }),
        increment({ count: 3, minute: thisHour() + 7 * MINUTE_MS, source: 's2', key: 'k2' }),
        increment({ measures: 'reevaluated+accepted+warned/omitted', count: 4 }),
        increment({ measures: 'received+rejected/c1/type', count: 50 }),
        increment({ measures: 'duplicate', count: 50 }),
        increment({ measures: 'matched+passed+created', rule: 'r1', destination: 'd1', count: 50 }),
      ];
      await counters().apply(batch(0, increments));
      await expect(counters().apply(batch(0, increments))).rejects.toThrow(Fenced);
      await counters().apply(batch(1, [increment()]));
      expect(await counts()).toEqual([['Paid', 10]]);
    });

    it('has the requested hours, both ends included, oldest first, then by type and name', async () => {
      const at = (hours: number) => thisHour() - hours * HOUR_MS;
      await counters().apply(
        batch(0, [
          increment({ name: 'b', minute: at(1) }),
          increment({ name: 'a', minute: at(1) }),
          increment({ name: 'a', minute: at(1), type: 'page' }),
          increment({ name: '', minute: at(2), type: 'identify' }),
          increment({ name: 'early', minute: at(3) }),
          increment({ name: 'late', minute: at(0) }),
        ]),
      );
      expect(await read({ fromHour: at(2), toHour: at(1) })).toEqual([
        { eventType: 'identify', eventName: '', hour: at(2), count: 1 },
        { eventType: 'page', eventName: 'a', hour: at(1), count: 1 },
        { eventType: 'track', eventName: 'a', hour: at(1), count: 1 },
        { eventType: 'track', eventName: 'b', hour: at(1), count: 1 },
      ]);
    });

    it('looks back 720 hours, across days', async () => {
      const hours = [0, 1, 23, 24, 25, 719];
      const increments = hours.map((back) =>
        increment({ count: back + 1, minute: thisHour() - back * HOUR_MS }),
      );
      await counters().apply(batch(0, increments));
      await counters().apply(batch(1, []));
      const rows = await reopened((opened) =>
        opened.volume({
          workspaceId: WORKSPACE_ID,
          fromHour: thisHour() - 719 * HOUR_MS,
          toHour: thisHour(),
        }),
      );
      expect(rows.map(({ count }) => count)).toEqual([720, 26, 25, 24, 2, 1]);
    });

    it('has names of any characters unchanged', async () => {
      const names = ['', ' ', 'a\0b', 'a\0c', 'é', 'e\u0301', '🚀', ':|,', '__proto__', '*', '#names'];
      await counters().apply(
        batch(
          0,
          names.map((name) => increment({ name })),
        ),
      );
      expect(new Set((await read()).map(({ eventName }) => eventName))).toEqual(new Set(names));
    });

    it('has more names than the funnel; those beyond the limit of a workspace and hour are counted together', async () => {
      const names = Array.from({ length: MAX_VOLUME_NAMES - 1 }, (_, n) =>
        increment({ name: `name-${n}`, samples: [] }),
      );
      for (let from = 0; from < 5; from++)
        await counters().apply(batch(from, names.slice(from * 2_000, (from + 1) * 2_000)));
      const more = ['last', 'over', 'more', 'over'].map((name, n) => increment({ name, count: n + 1 }));
      await counters().apply(batch(5, [...more, increment({ name: 'over', workspaceId: 'another' })]));
      const yesterday = thisHour() - DAY_MS;
      await counters().apply(batch(6, [increment({ name: 'over', minute: yesterday })]));
      await counters().apply(batch(7, [increment({ name: 'name-0' }), increment({ name: 'over' })]));
      const rows = new Map((await read()).map(({ eventName, count }) => [eventName, count]));
      expect(rows.size).toBe(MAX_VOLUME_NAMES + 1);
      expect([rows.get('name-0'), rows.get('last'), rows.get(OTHER_NAME)]).toEqual([2, 1, 10]);
      expect(await counts({ workspaceId: 'another' })).toEqual([['over', 1]]);
      expect(await counts({ fromHour: yesterday, toHour: yesterday })).toEqual([['over', 1]]);
    });
  });

  describe('key uses', () => {
    it('keep the newest, in any order of arrival, through closing and opening', async () => {
      await counters().apply(batch(0, [], { keyUses: [{ keyId: 'k', at: 5 }] }));
      await counters().touch({ keyId: 'k', at: 3 });
      expect(await counters().lastUsed(['k'])).toEqual(new Map([['k', 5]]));
      await counters().touch({ keyId: 'k', at: 1_700_000_000_000 });
      await counters().apply(batch(1, [], { keyUses: [{ keyId: 'k', at: 9 }] }));
      expect(await reopened((opened) => opened.lastUsed(['k']))).toEqual(new Map([['k', 1_700_000_000_000]]));
    });

    it('of a batch that is fenced are not recorded', async () => {
      const fenced = batch(4, [], { keyUses: [{ keyId: 'k', at: 5 }] });
      await expect(counters().apply(fenced)).rejects.toThrow(Fenced);
      expect(await counters().lastUsed(['k'])).toEqual(new Map());
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
      reopened((opened) =>
        opened.runs({
          workspaceId: WORKSPACE_ID,
          transformationId: 't',
          fromHour: thisHour(),
          toHour: thisHour(),
          ...changes,
        }),
      );
    const runs = async (changes: Partial<RunQuery> = {}) =>
      (await byHour(changes)).map(({ counts }) => counts).reduce(addCounts, {});

    it('are empty before the first, and add up over all processes', async () => {
      expect(await byHour()).toEqual([]);
      await Promise.all([
        counters().addRuns([tally({ runs: 3, ms4: 2 }), tally({ runs: 1 })]),
        reopened((other) => other.addRuns([tally({ runs: 4, errors: 1 })])),
      ]);
      expect(await runs()).toEqual({ runs: 8, ms4: 2, errors: 1 });
    });

    it('are returned for a transformation of a workspace, and the requested hours', async () => {
      const ago = (hours: number) => thisHour() - hours * HOUR_MS;
      await counters().addRuns([
        ...[0, 1, 25, 719, 720].map((hours) => tally({ runs: hours + 1 }, { hour: ago(hours) })),
        tally({ runs: 1_000_000 }, { workspaceId: 'another' }),
        tally({ runs: 1_000_000 }, { transformationId: 'other' }),
      ]);
      expect(await runs({ fromHour: ago(25), toHour: ago(1) })).toEqual({ runs: 28 });
      expect(await byHour({ fromHour: ago(719) })).toEqual(
        [719, 25, 1, 0].map((hours) => ({ hour: ago(hours), counts: { runs: hours + 1 } })),
      );
    });
  });
}
