import { type EventLog, Fenced, POISON_ATTEMPTS, partitionOf, Rewind, Unavailable } from '@tributary/core';
import { expect, it } from 'vitest';
import { type EventLogHarness, type Medium, PARTITIONS, RECEIVED, SOURCE, TARGET } from './harness.ts';
import { eventually, keyPerPartition, numbered, numbers, readAll, valuesOf } from './log-contents.ts';
import { batchStage, copyOf, copyStage, eachOf, poisoned, runThrough } from './stages.ts';

/** The guarantees for a batch stage. */
export function describeBatchStages(
  harness: EventLogHarness,
  medium: () => Medium,
  log: () => EventLog,
): void {
  it('gets each partition in order, one batch at a time, within its limit', async () => {
    const keys = keyPerPartition();
    for (const key of keys) await log().append(SOURCE, numbered(key, 100));
    const working = new Set<number>();
    const seen = new Map<string, number[]>();
    await runThrough(
      log(),
      batchStage(
        async ({ topic, partition, entries }) => {
          expect(working.has(partition)).toBe(false);
          working.add(partition);
          expect([topic, entries.length > 0, entries.length <= 30]).toEqual([SOURCE, true, true]);
          for (const { key, value } of entries) seen.set(key, [...(seen.get(key) ?? []), Number(value)]);
          await new Promise((resolve) => setTimeout(resolve, 2));
          working.delete(partition);
          return [];
        },
        { maxEntries: 30 },
      ),
    );
    for (const key of keys) expect(seen.get(key)).toEqual(numbers(100));
  });

  it('dead-letters only the entry at which it throws, after its attempts', async () => {
    const headers = { type: 'track' };
    await log().append(
      SOURCE,
      numbers(100).map((n) => ({ key: 'k', value: String(n), headers })),
    );
    const alone: number[] = [];
    const stage = batchStage(async ({ entries }) => {
      if (entries.length === 1) alone.push(...entries.map(({ value }) => Number(value)));
      if (entries.some(({ value }) => value === '41')) throw new Error('cannot take 41');
      return entries.map((entry) => copyOf(entry));
    });
    await runThrough(log(), stage);
    expect(await valuesOf(log(), TARGET)).toEqual(numbers(100).filter((n) => n !== 41));
    expect(alone.filter((n) => n === 41)).toHaveLength(POISON_ATTEMPTS);
    const [dead, ...others] = await poisoned(log());
    expect(others).toEqual([]);
    expect(dead).toMatchObject({
      stage: 'stage',
      position: { topic: SOURCE, index: 0 },
      error: 'cannot take 41',
      entry: { key: 'k', value: '41', headers },
    });
    expect(Number.isNaN(Date.parse(dead?.at ?? ''))).toBe(false);
  });

  it('dead-letters only the failing entry of a record with several', async () => {
    const positions = await log().append(RECEIVED, numbered('k', 9));
    await runThrough(
      log(),
      batchStage(
        eachOf(({ value }) => {
          if (value === '4') throw new Error('no');
        }),
        { reads: [{ topic: RECEIVED }] },
      ),
    );
    expect(await valuesOf(log(), TARGET)).toEqual([0, 1, 2, 3, 5, 6, 7, 8]);
    expect((await poisoned(log())).map(({ position }) => position)).toEqual([positions[4]]);
  });

  it('continues inside a record where it stopped', async () => {
    await log().append(RECEIVED, numbered('k', 10));
    const reads = [{ topic: RECEIVED }];
    const first = await log().run(
      batchStage(
        async ({ entries }) => {
          void first.stop();
          return entries.map((entry) => copyOf(entry));
        },
        { reads, maxEntries: 3 },
      ),
    );
    await first.ended;
    expect(await valuesOf(log(), TARGET)).toEqual([0, 1, 2]);
    await runThrough(log(), copyStage({ reads }));
    expect(await valuesOf(log(), TARGET)).toEqual(numbers(10));
  });

  it('retries at Unavailable without a limit, and dead-letters nothing', async () => {
    await log().append(SOURCE, numbered('k', 20));
    let calls = 0;
    await runThrough(
      log(),
      batchStage(async ({ entries }) => {
        if (++calls <= POISON_ATTEMPTS * 3) throw new Unavailable('the store does not answer');
        return entries.map((entry) => copyOf(entry));
      }),
    );
    expect(await valuesOf(log(), TARGET)).toEqual(numbers(20));
    expect(await poisoned(log())).toEqual([]);
  });

  it('a partition that waits for an engine delays neither another partition nor a stop', async () => {
    const graceful = await harness.open(medium(), { stopGraceMs: 60_000 });
    const [stuck = '', ...others] = keyPerPartition();
    for (const key of [stuck, ...others]) await graceful.append(SOURCE, numbered(key, 5));
    const run = await graceful.run(
      batchStage(async ({ partition, entries }) => {
        if (partition === partitionOf(stuck, PARTITIONS)) throw new Unavailable('not this one');
        return entries.map((entry) => copyOf(entry));
      }),
    );
    await eventually(
      async () => (await readAll(graceful, TARGET)).length === 5 * others.length,
      'others wait',
    );
    // Output records may be visible shortly before their commit is confirmed.
    await expect
      .poll(async () => (await run.lag()).filter((one) => one.lag > 0))
      .toMatchObject([{ topic: SOURCE, partition: partitionOf(stuck, PARTITIONS), lag: 5 }]);
    const stopping = performance.now();
    await run.stop();
    expect(performance.now() - stopping).toBeLessThan(10_000);
    await graceful.close();
  });

  it('gets entries again from the position of a rewind, and its output exists once', async () => {
    await log().append(SOURCE, numbered('k', 30));
    const seen: number[] = [];
    let rewinds = 2;
    await runThrough(
      log(),
      batchStage(
        async ({ entries }) => {
          if (entries.some(({ value }) => value === '20') && rewinds-- > 0) throw new Rewind(5);
          seen.push(...entries.map(({ value }) => Number(value)));
          return entries.map((entry) => copyOf(entry));
        },
        { maxEntries: 10 },
      ),
    );
    expect(seen.filter((n) => n === 7)).toHaveLength(3);
    expect(seen.filter((n) => n === 3)).toHaveLength(1);
    expect(seen.slice(-10)).toEqual(numbers(10, 20));
    expect(await valuesOf(log(), TARGET)).toEqual(numbers(30));
  });

  it('restarts from the committed position at Fenced', async () => {
    await log().append(SOURCE, numbered('k', 30));
    let fenced = false;
    await runThrough(
      log(),
      batchStage(
        async ({ entries }) => {
          if (!fenced && entries.some(({ value }) => value === '15')) {
            fenced = true;
            throw new Fenced('someone newer');
          }
          return entries.map((entry) => copyOf(entry));
        },
        { maxEntries: 10 },
      ),
    );
    expect(await valuesOf(log(), TARGET)).toEqual(numbers(30));
    expect(await poisoned(log())).toEqual([]);
  });

  it.each([
    ['to a topic it does not declare', SOURCE, '1'],
    ['of more than a value may be', TARGET, `"${'x'.repeat(1024 * 1024)}"`],
  ])('an output record %s counts as a throw', async (_, topic, value) => {
    await log().append(SOURCE, numbered('k', 10));
    await runThrough(
      log(),
      batchStage(async ({ entries }) =>
        entries.map((entry) =>
          entry.value === '3' ? { topic, key: 'k', value, headers: {} } : copyOf(entry),
        ),
      ),
    );
    expect(await valuesOf(log(), TARGET)).toEqual(numbers(10).filter((n) => n !== 3));
    expect((await poisoned(log())).map(({ entry }) => entry.value)).toEqual(['3']);
  });
}
