import { setTimeout as sleep } from 'node:timers/promises';
import {
  type EventLog,
  hopStep,
  InvalidInput,
  type LogEntry,
  type Metrics,
  parseRetrySchedule,
  partitionOf,
  retryDelays,
  Unavailable,
} from '@tributary/core';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import {
  DELAYED,
  type EventLogHarness,
  type Medium,
  OTHER_TARGET,
  PARTITIONS,
  SOURCE,
  TARGET,
} from './harness.ts';
import { eventually, gate, keyPerPartition, numbered, numbers, readAll, valuesOf } from './log-contents.ts';
import {
  batchStage,
  caughtUp,
  copyOf,
  copyStage,
  eachOf,
  flowStage,
  poisoned,
  runThrough,
} from './stages.ts';

/** The guarantees for runs of either kind: stopping, continuing, delays, lag. */
export function describeRunning(harness: EventLogHarness, medium: () => Medium, log: () => EventLog): void {
  it('continues where the previous run ended, also in another process', async () => {
    await log().append(SOURCE, numbered('k', 10));
    const stage = copyStage();
    await runThrough(log(), stage);
    await log().append(SOURCE, numbered('k', 10, 10));
    const other = await harness.open(medium());
    await runThrough(other, stage);
    await other.close();
    expect(await valuesOf(log(), TARGET)).toEqual(numbers(20));
  });

  it.each(['batch', 'flow'] as const)(
    'a %s stage that is stopped finishes and commits its entries in flight',
    async (kind) => {
      await log().append(SOURCE, numbered('k', 5));
      const [taken, finish] = [gate(), gate()];
      let inFlight = 0;
      const handle = async (entry: LogEntry) => {
        if (++inFlight === 5) taken.open();
        await finish.opened;
        return [copyOf(entry)];
      };
      const process = async (batch: { entries: readonly LogEntry[] }) =>
        (await Promise.all(batch.entries.map(handle))).flat();
      const run = await log().run(kind === 'flow' ? flowStage(handle) : batchStage(process));
      await taken.opened;
      const stopping = Promise.all([run.stop(), run.stop()]);
      await log().append(SOURCE, numbered('k', 5, 5));
      finish.open();
      await stopping;
      await run.ended;
      expect(await valuesOf(log(), TARGET)).toEqual(numbers(5));
    },
  );

  it.each(['batch', 'flow'] as const)(
    'a %s stage that hangs is abandoned after the grace period, and its entries are dispatched again',
    async (kind) => {
      const hasty = await harness.open(medium(), { stopGraceMs: 100 });
      await hasty.append(SOURCE, numbered('k', 3));
      const taken = gate();
      let aborted = false;
      const hang = async (_: unknown, { signal }: { signal: AbortSignal }): Promise<never> => {
        signal.addEventListener('abort', () => {
          aborted = true;
        });
        taken.open();
        return new Promise(() => {});
      };
      const run = await hasty.run(kind === 'flow' ? flowStage(hang) : batchStage(hang));
      await taken.opened;
      await run.stop();
      expect(aborted).toBe(true);
      await hasty.close();
      await runThrough(log(), kind === 'flow' ? flowStage(async (e) => [copyOf(e)]) : copyStage());
      expect(await valuesOf(log(), TARGET)).toEqual(numbers(3));
      expect(await poisoned(log())).toEqual([]);
    },
  );

  it.each(['batch', 'flow'] as const)(
    'a %s stage delays only the partition of entries that are not yet due',
    async (kind) => {
      let now = Date.now();
      const timed = await harness.open(medium(), { clock: () => now });
      const [late = '', soon = ''] = keyPerPartition();
      await timed.append(DELAYED, numbered(soon, 3));
      await sleep(1_000);
      const [{ timestamp = 0 } = {}] = await readAll(timed, DELAYED);
      await timed.append(DELAYED, numbered(late, 3));
      now = timestamp + 3_600_500;
      const reads = [{ topic: DELAYED, dueAt: (appendedAt: number) => appendedAt + 3_600_000 }];
      const handle = async (entry: LogEntry) => [copyOf(entry)];
      const run = await timed.run(kind === 'flow' ? flowStage(handle, { reads }) : copyStage({ reads }));
      const partition = partitionOf(late, PARTITIONS);
      await eventually(async () => {
        const behind = (await run.lag()).filter(({ lag }) => lag > 0);
        return behind.length === 1 && behind[0]?.partition === partition && behind[0]?.lag === 3;
      }, 'what is due');
      expect((await readAll(timed, TARGET)).map(({ key }) => key)).toEqual([soon, soon, soon]);
      now += 4_000_000;
      await caughtUp(run);
      expect((await readAll(timed, TARGET)).filter(({ key }) => key === late)).toHaveLength(3);
      await timed.close();
    },
  );

  it('does not delay a due entry by one that is not, though each of them waits for a time of its own', async () => {
    const delays = retryDelays(parseRetrySchedule(['100ms', '700ms', '5s']));
    const topics = [DELAYED, TARGET, OTHER_TARGET];
    const topicOf = (ms: number) => topics[delays.indexOf(hopStep(delays, ms))] ?? DELAYED;
    const lateMs: number[] = [];
    const handle = async ({ key, value }: LogEntry) => {
      const leftMs = Number(value) - Date.now();
      if (leftMs > 0) return [{ topic: topicOf(leftMs), key, value, headers: {} }];
      lateMs.push(-leftMs);
      return [];
    };
    const dueAfter = (ms: number) => (appendedAt: number) => appendedAt + ms;
    const reads = delays.map(({ ms }, at) => ({ topic: topics[at] ?? DELAYED, dueAt: dueAfter(ms) }));
    const run = await log().run(flowStage(handle, { reads, writes: topics }));
    const waits = fc.sample(fc.oneof(fc.integer({ min: 0, max: 3_000 }), fc.constant(60_000)), 400);
    const now = Date.now();
    for (const topic of topics) {
      const entries = waits.filter((ms) => topicOf(ms) === topic);
      if (entries.length > 0)
        await log().append(
          topic,
          entries.map((ms, n) => ({ key: `k${n % 7}`, value: String(now + ms), headers: {} })),
        );
    }
    const due = waits.filter((ms) => ms <= 3_000).length;
    await eventually(() => Promise.resolve(lateMs.length >= due), 'what is due');
    await run.stop();
    // Each wait ends up to a second late by `hopStep`; the rest is the time of the engine for several commits.
    expect(Math.max(...lateMs)).toBeLessThan(3_000);
  });

  it('reports its lag in entries', async () => {
    await log().append(SOURCE, numbered('k', 25));
    const blocked = gate();
    const run = await log().run(
      batchStage(
        async ({ entries }) => {
          if (entries.some(({ value }) => value === '10')) await blocked.opened;
          return [];
        },
        { maxEntries: 10 },
      ),
    );
    const partition = partitionOf('k', PARTITIONS);
    const behind = async () => (await run.lag()).find((one) => one.partition === partition)?.lag;
    await eventually(async () => (await behind()) === 15, 'lag of 15');
    expect(await run.lag()).toHaveLength(PARTITIONS);
    // The only process that runs the stage has all of its partitions.
    const owned = run.owned().map(({ topic, partition: number }) => `${topic}/${number}`);
    expect(owned.sort()).toEqual(Array.from({ length: PARTITIONS }, (_, number) => `${SOURCE}/${number}`));
    blocked.open();
    await caughtUp(run);
    await run.stop();
  });

  it('returns the progress of a stage that does not run, and of one that never ran', async () => {
    const partition = partitionOf('k', PARTITIONS);
    await log().append(SOURCE, numbered('k', 10));
    const stage = copyStage();
    await runThrough(log(), stage);
    await log().append(SOURCE, numbered('k', 5, 10));
    const topics = [SOURCE];
    const progress = await log().progress([
      { stage: stage.name, topics },
      { stage: 'never-ran', topics },
    ]);
    expect(progress.map(({ stage: name, partitions }) => [name, partitions.length])).toEqual([
      [stage.name, PARTITIONS],
      ['never-ran', PARTITIONS],
    ]);
    const [ran, never] = progress.map(({ partitions }) =>
      partitions.find((of) => of.partition === partition),
    );
    const end = await log().end(SOURCE, partition);
    const position = await log().positionOf(stage.name, SOURCE, partition);
    expect(position).toBeGreaterThan(0);
    expect(ran).toEqual({ topic: SOURCE, partition, first: 0, position, end });
    expect(position).toBeLessThan(end);
    expect(never).toEqual({ topic: SOURCE, partition, first: 0, position: undefined, end });
    // Without a process, no members; a log without consumer groups does not know.
    expect([0, undefined]).toContain(progress[0]?.members);
  });

  it('reports batches, poison records and the time of commits', async () => {
    const counted = new Map<string, number>();
    const add = (name: string, by = 1) => counted.set(name, (counted.get(name) ?? 0) + by);
    const metrics: Metrics = {
      count: (name, _, by) => add(name, by),
      gauge: (name) => add(name),
      removeGauge: () => undefined,
      observe: (name) => add(name),
    };
    const measured = await harness.open(medium(), { metrics });
    await measured.append(SOURCE, numbered('k', 1));
    await runThrough(
      measured,
      batchStage(async () => {
        throw new Error('no');
      }),
    );
    await measured.close();
    expect(counted.get('tributary_stage_dead_letters_total')).toBe(1);
    expect(counted.get('tributary_stage_batches_total')).toBeGreaterThan(0);
    expect(counted.get('tributary_stage_commit_duration_seconds')).toBeGreaterThan(0);
  });

  it('continues after an outage of the engine, and dead-letters nothing', async () => {
    const run = await log().run(copyStage());
    await log().append(SOURCE, numbered('k', 10));
    await caughtUp(run);
    const restore = await harness.outage(medium());
    const appended = log()
      .append(SOURCE, numbered('k', 1, 10))
      .catch(() => undefined);
    await appended;
    await restore();
    // Right after its start a broker may not lead its partitions yet: a producer repeats the append.
    const isAppended = () =>
      log()
        .append(SOURCE, numbered('again', 1))
        .then(
          () => true,
          (thrown: unknown) => {
            if (thrown instanceof Unavailable) return false;
            throw thrown;
          },
        );
    await eventually(isAppended, 'an append');
    const values = (await readAll(log(), SOURCE))
      .filter(({ key }) => key === 'k')
      .map(({ value }) => Number(value));
    await log().append(SOURCE, numbered('k', 10, 11));
    await caughtUp(run);
    await run.stop();
    const copied = (await readAll(log(), TARGET))
      .filter(({ key }) => key === 'k')
      .map(({ value }) => Number(value));
    expect(copied).toEqual([...values, ...numbers(10, 11)]);
    expect(await poisoned(log())).toEqual([]);
  });

  it('refuses a stage that reads or writes a missing topic as InvalidInput', async () => {
    const process = eachOf(() => {});
    await expect(log().run(batchStage(process, { reads: [{ topic: 'no.such' }] }))).rejects.toBeInstanceOf(
      InvalidInput,
    );
    await expect(log().run(batchStage(process, { writes: ['no.such'] }))).rejects.toBeInstanceOf(
      InvalidInput,
    );
  });

  it('closing the log stops its stages in order', async () => {
    const other = await harness.open(medium());
    await other.append(SOURCE, numbered('k', 10));
    const [taken, finish] = [gate(), gate()];
    const run = await other.run(
      batchStage(async ({ entries }) => {
        taken.open();
        await finish.opened;
        return entries.map((entry) => copyOf(entry));
      }),
    );
    await taken.opened;
    const closing = other.close();
    finish.open();
    await Promise.all([closing, run.ended]);
    expect(await valuesOf(log(), TARGET)).toEqual(numbers(10));
  });
}
