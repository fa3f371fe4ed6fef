import type { Counters } from '@tributary/core';
import { afterEach, expect, it } from 'vitest';
import { Child } from '../../../helpers/child.ts';
import { NAMES } from '../programs/applier.ts';
import {
  type CountersHarness,
  type CreatedCounters,
  HOUR_MS,
  PARTITION,
  thisHour,
  WORKSPACE_ID,
} from './harness.ts';

const KILLS = process.env.TRIBUTARY_TEST_LONG ? 30 : 2;
const KILLS_WITHIN_MS = 10_000 + KILLS * 15_000;
const APPLIER = new URL('../programs/applier.ts', import.meta.url);

/** Several writers of one store, and writers that are killed. */
export function describeProcesses(
  harness: CountersHarness,
  created: () => CreatedCounters,
  opened: () => Counters,
): void {
  const children: Child[] = [];
  afterEach(async () => {
    await Promise.all(children.splice(0).map((child) => child.kill()));
  });

  const start = (batches: number) => {
    const { settings } = created();
    const child = new Child(APPLIER, [harness.module, settings, String(batches), String(thisHour())]);
    children.push(child);
    return child;
  };
  const byName = async () => {
    const rows = await opened().funnel({
      workspaceId: WORKSPACE_ID,
      interval: 'hour',
      from: thisHour(),
      to: thisHour() + HOUR_MS,
      filter: {},
      groupBy: ['name'],
    });
    return Object.fromEntries(rows.map(({ group, counts }) => [group.name, counts.received]));
  };

  const volume = async () => {
    const hours = { fromHour: thisHour(), toHour: thisHour() };
    const rows = await opened().volume({ workspaceId: WORKSPACE_ID, ...hours });
    return rows.map(({ eventName, count }) => [eventName, count]);
  };

  it('lets several processes count one partition, each batch once', async () => {
    const appliers = [start(30), start(30), start(30)];
    await Promise.all(appliers.map((applier) => applier.wrote(1)));
    for (const applier of appliers) applier.go();
    await Promise.all(appliers.map((applier) => applier.finished()));
    expect(await opened().applied(PARTITION)).toBe(90);
    expect(await byName()).toEqual(Object.fromEntries(NAMES.map((name) => [name, 90])));
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
        const applied = await opened().applied(PARTITION);
        expect(applied).toBeGreaterThanOrEqual(Number(child.lines.at(-1)));
        expect(await byName()).toEqual(Object.fromEntries(NAMES.map((name) => [name, applied])));
        expect(await volume()).toEqual(NAMES.map((name) => [name, applied]));
        expect(await opened().lastUsed(['k'])).toEqual(new Map([['k', applied]]));
      }
    },
    KILLS_WITHIN_MS,
  );
}
