import { describe, expect, it } from 'vitest';
import type { WriterLine } from '../programs/writer.ts';
import type { Traffic } from '../traffic/operations.ts';
import { verdictOn } from '../traffic/verdict.ts';
import { isAnswer, runWriters, type WritersOptions } from '../traffic/writers.ts';
import { Published } from './harness.ts';
import type { Stage } from './stage.ts';

const LONG = process.env.TRIBUTARY_TEST_LONG !== undefined;
/** 100 writers, 10,000 operations; a small part of it otherwise. */
const SIZE = LONG
  ? { processes: 5, writersOfProcess: 20, operationsOfWriter: 100, kills: 25 }
  : { processes: 3, writersOfProcess: 4, operationsOfWriter: 25, kills: 2 };
/** 16 clients, 20,000 operations. */
const MOVING_SIZE = LONG ? { processes: 4, writersOfProcess: 4, operationsOfWriter: 1_250, kills: 40 } : SIZE;
const GROUPS = LONG ? 120 : 12;
const WITHIN_MS = LONG ? 900_000 : 120_000;
/** Within this time the next writer repairs the remains of killed ones, as fast as the machine lets it, ms. */
const REPAIRED_WITHIN_MS = LONG ? 300_000 : 60_000;

export function crashes(stage: Stage): void {
  describe('writer processes that are killed at any moment', () => {
    const judge = async (
      mix: Pick<Traffic, 'deletions' | 'events' | 'unlinks' | 'splits'>,
      seesItsWrites: boolean,
      size: typeof SIZE = SIZE,
    ) => {
      const installation = await stage.installation(60 * 60 * 1000);
      const traffic: Traffic = {
        scope: { org: 7, region: 'eu' },
        seed: Math.floor(Math.random() * 1_000_000),
        groups: GROUPS,
        identitiesOfGroup: 8,
        ...mix,
      };
      const { harness } = stage;
      const options: WritersOptions = {
        harness,
        settings: installation.settings,
        traffic,
        seesItsWrites,
        ...size,
      };
      const { lines, kills } = await runWriters(options);
      expect(kills).toBe(size.kills);
      const published = new Published();
      const store = await installation.open({ publish: published.publish, tidyEveryMs: 250 });
      const all = (): readonly WriterLine[] => [
        ...lines,
        ...published.changes.map(
          ({ kind, ucid, version, linked }) =>
            ({ kind: 'published', change: kind, ucid, version, linked }) as const,
        ),
      ];
      const done = lines.filter(isAnswer).length;
      expect(done).toBeGreaterThanOrEqual(size.processes * size.writersOfProcess * size.operationsOfWriter);
      const splits = lines.filter((line) => line.kind === 'split' && line.outcome === 'split').length;
      if (mix.splits !== undefined) expect(splits).toBeGreaterThan(done / 100);
      await expect
        .poll(async () => ({ traffic, faults: await verdictOn(store, traffic, all()) }), {
          timeout: REPAIRED_WITHIN_MS,
          interval: 500,
        })
        .toEqual({ traffic, faults: [] });
    };

    it(
      'leave one owner for each identity of overlapping profiles, and the newest of each value',
      () => judge({ deletions: 0, events: 0 }, true),
      WITHIN_MS,
    );

    it(
      'leave records deleted meanwhile either complete or removed, and events merge no users',
      () => judge({ deletions: 0.08, events: 0.3 }, false),
      WITHIN_MS,
    );

    it(
      'leave every value with the profile that it was written to, through splits and unlinks',
      () => judge({ deletions: 0, events: 0.1, unlinks: 0.05, splits: 0.2 }, false, MOVING_SIZE),
      WITHIN_MS,
    );
  });
}
