import { type EventLog, type LogEntry, POISON_ATTEMPTS, Rewind, Unavailable } from '@tributary/core';
import { expect, it } from 'vitest';
import { type EventLogHarness, type Medium, RECEIVED, SOURCE, TARGET } from './harness.ts';
import { eventually, gate, numbered, numbers, valuesOf } from './log-contents.ts';
import { caughtUp, copyOf, flowStage, poisoned, runThrough } from './stages.ts';

/** The guarantees for a flow stage. */
export function describeFlowStages(
  harness: EventLogHarness,
  medium: () => Medium,
  log: () => EventLog,
): void {
  it('emits in the order of the entries, however they finish', async () => {
    await log().append(SOURCE, numbered('k', 200));
    const finished: number[] = [];
    await runThrough(
      log(),
      flowStage(async (entry) => {
        await new Promise((resolve) => setTimeout(resolve, Math.random() * 10));
        finished.push(Number(entry.value));
        return [copyOf(entry)];
      }),
    );
    expect(finished).not.toEqual(numbers(200));
    expect(await valuesOf(log(), TARGET)).toEqual(numbers(200));
  });

  it('one slow entry does not close the window: those behind it continue, far past its bytes', async () => {
    const pad = 'x'.repeat(1_000);
    const entries = numbers(600).map((n) => ({ key: 'k', value: JSON.stringify({ n, pad }), headers: {} }));
    await log().append(SOURCE, entries);
    const slow = gate();
    let finished = 0;
    const run = await log().run(
      flowStage(
        async (entry) => {
          if (JSON.parse(entry.value).n === 0) await slow.opened;
          finished++;
          return [{ topic: TARGET, key: 'k', value: String(JSON.parse(entry.value).n), headers: {} }];
        },
        { windowBytes: 60_000 },
      ),
    );
    await eventually(() => finished === 599, 'those behind the slow one');
    expect(await valuesOf(log(), TARGET)).toEqual([]);
    slow.open();
    await caughtUp(run);
    await run.stop();
    expect(await valuesOf(log(), TARGET)).toEqual(numbers(600));
  });

  it('the window bounds the bytes in hand, and emissions that wait for a slow entry count', async () => {
    const value = JSON.stringify('x'.repeat(998));
    await log().append(
      SOURCE,
      numbers(100).map((n) => ({ key: 'k', value: n === 0 ? '0' : value, headers: {} })),
    );
    const slow = gate();
    let handed = 0;
    const handle = async (entry: LogEntry) => {
      handed++;
      if (entry.value === '0') await slow.opened;
      return [copyOf(entry)];
    };
    const run = await log().run(flowStage(handle, { windowBytes: 10_000 }));
    await eventually(() => handed >= 9, 'the window fills');
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(handed).toBeLessThanOrEqual(11);
    slow.open();
    await caughtUp(run);
    await run.stop();
    expect(await valuesOf(log(), TARGET)).toHaveLength(100);
  });

  it('bounds the count of uncommitted entries, however small', async () => {
    const bounded = await harness.open(medium(), { maxUncommitted: 50 });
    await bounded.append(SOURCE, numbered('k', 200));
    const slow = gate();
    let handed = 0;
    const run = await bounded.run(
      flowStage(async (entry) => {
        handed++;
        if (entry.value === '0') await slow.opened;
        return [];
      }),
    );
    await eventually(() => handed === 50, 'the window fills');
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(handed).toBe(50);
    slow.open();
    await caughtUp(run);
    expect(handed).toBe(200);
    await bounded.close();
  });

  it('an entry larger than the window passes alone', async () => {
    const large = JSON.stringify('x'.repeat(50_000));
    await log().append(SOURCE, [
      ...numbered('k', 2),
      { key: 'k', value: large, headers: {} },
      ...numbered('k', 2, 2),
    ]);
    await runThrough(
      log(),
      flowStage(async (entry) => [copyOf(entry)], { windowBytes: 1_000 }),
    );
    expect(await valuesOf(log(), TARGET)).toEqual([0, 1, JSON.parse(large), 2, 3]);
  });

  it.each([SOURCE, RECEIVED])(
    'dead-letters the one entry of %s at which it throws, and no other',
    async (topic) => {
      const positions = await log().append(topic, numbered('k', 20));
      let attempts = 0;
      await runThrough(
        log(),
        flowStage(
          async (entry) => {
            if (entry.value !== '7') return [copyOf(entry)];
            attempts++;
            throw new Error('no');
          },
          { reads: [{ topic }] },
        ),
      );
      expect(attempts).toBe(POISON_ATTEMPTS);
      expect(await valuesOf(log(), TARGET)).toEqual(numbers(20).filter((n) => n !== 7));
      expect((await poisoned(log())).map(({ position }) => position)).toEqual([positions[7]]);
    },
  );

  it('repeats at Unavailable, dead-letters nothing, and takes nothing new meanwhile', async () => {
    await log().append(SOURCE, numbered('k', 5));
    let failing = true;
    let failures = 0;
    const handed = new Set<string>();
    const run = await log().run(
      flowStage(async (entry) => {
        handed.add(entry.value);
        if (entry.value !== '2' || !failing) return [copyOf(entry)];
        failures++;
        throw new Unavailable('the store does not answer');
      }),
    );
    await eventually(() => failures > POISON_ATTEMPTS, 'repetitions');
    await log().append(SOURCE, numbered('k', 5, 5));
    await eventually(() => failures > POISON_ATTEMPTS * 2, 'more repetitions');
    // On a busy machine the first failure may come before all of the first five are handed over.
    expect([...handed].map(Number).filter((value) => value >= 5)).toEqual([]);
    failing = false;
    await caughtUp(run);
    await run.stop();
    expect(await valuesOf(log(), TARGET)).toEqual(numbers(10));
    expect(await poisoned(log())).toEqual([]);
  });

  it('gets entries again from where it rewinds to, never while it still has them, and emits once', async () => {
    await log().append(SOURCE, numbered('k', 40));
    const inFlight = new Set<string>();
    const seen: number[] = [];
    let rewound = false;
    await runThrough(
      log(),
      flowStage(async (entry) => {
        expect(inFlight.has(entry.value)).toBe(false);
        inFlight.add(entry.value);
        seen.push(Number(entry.value));
        await new Promise((resolve) => setTimeout(resolve, Math.random() * 5));
        inFlight.delete(entry.value);
        if (entry.value === '30' && !rewound) {
          rewound = true;
          await eventually(async () => (await valuesOf(log(), TARGET)).length >= 10, 'those before it');
          throw new Rewind(3);
        }
        return [copyOf(entry)];
      }),
    );
    expect(seen.filter((n) => n === 3)).toHaveLength(2);
    expect(await valuesOf(log(), TARGET)).toEqual(numbers(40));
    expect(await poisoned(log())).toEqual([]);
  });
}
