import { setTimeout as sleep } from 'node:timers/promises';
import { type EventLog, TOPIC } from '@tributary/core';
import { expect, it } from 'vitest';
import { LogChild } from '../programs/child-process.ts';
import type { Deadly } from '../programs/crashing-thread.ts';
import { type EventLogHarness, type Medium, RECEIVED, TARGET } from './harness.ts';
import { eventually, numbers, valuesOf } from './log-contents.ts';
import { poisoned } from './stages.ts';

const ENTRIES = 400;

/** An entry ends the process at most twice, and is never blamed for crashes with other causes. */
export function describeQuarantine(
  harness: EventLogHarness,
  medium: () => Medium,
  log: () => EventLog,
): void {
  const isLong = process.env.TRIBUTARY_TEST_LONG !== undefined;
  const deadly = new Map<number, Deadly['deadly']>([
    [57, { to: 'flow', by: 'heap' }],
    ...(isLong
      ? ([
          [23, { to: 'batch', by: 'exit' }],
          [200, { to: 'flow', by: 'uncaught' }],
        ] as const)
      : []),
  ]);

  it('ended the process at every start: it is quarantined after two crashes, and the others are processed', {
    timeout: 300_000,
  }, async () => {
    await append(log(), deadly);
    let deaths = 0;
    let child = new LogChild('./crashing-child.ts', harness, medium());
    const innocent = numbers(ENTRIES).filter((n) => !deadly.has(n));
    const isDone = async () => (await copies(log())).length >= innocent.length;
    while (!(await isDone())) {
      const ended = await Promise.race([child.ended(), sleep(100)]);
      if (ended === undefined) continue;
      expect(ended).toBe(1);
      deaths++;
      expect(deaths).toBeLessThanOrEqual(2 * deadly.size);
      child = new LogChild('./crashing-child.ts', harness, medium());
    }
    await eventually(async () => (await poisoned(log())).length >= deadly.size, 'all are given up');
    expect((await copies(log())).toSorted((a, b) => a - b)).toEqual(innocent);
    expect(deaths).toBeGreaterThanOrEqual(2);
    const records = await poisoned(log());
    expect(
      records.map(({ entry }) => (JSON.parse(entry.value) as Deadly).n).toSorted((a, b) => a - b),
    ).toEqual([...deadly.keys()].toSorted((a, b) => a - b));
    for (const { error } of records) expect(error).toContain('crashed the process twice');
    await child.leave();
  });

  it('is not suspected after kills from outside, and no crash is recorded', {
    timeout: 300_000,
  }, async () => {
    await append(log(), new Map());
    for (let kill = 0; kill < 2; kill++) {
      const child = new LogChild('./crashing-child.ts', harness, medium());
      await child.saw(() => child.lines.length > 0);
      await sleep(Math.random() * 40);
      await child.kill();
    }
    const child = new LogChild('./crashing-child.ts', harness, medium());
    await eventually(async () => (await copies(log())).length >= ENTRIES, 'all are copied', 60_000);
    await child.leave();
    expect((await copies(log())).toSorted((a, b) => a - b)).toEqual(numbers(ENTRIES));
    expect(await log().end(TOPIC.crashes, 0)).toBe(0);
    expect(await poisoned(log())).toEqual([]);
  });
}

async function append(log: EventLog, deadly: ReadonlyMap<number, Deadly['deadly']>): Promise<void> {
  const entries = numbers(ENTRIES).map((n) => {
    const one = deadly.get(n);
    const value: Deadly = one === undefined ? { n } : { n, deadly: one };
    return { key: `k${n % 16}`, value: JSON.stringify(value), headers: {} };
  });
  await log.append(RECEIVED, entries);
}

async function copies(log: EventLog): Promise<readonly number[]> {
  return ((await valuesOf(log, TARGET)) as Deadly[]).map(({ n }) => n);
}
