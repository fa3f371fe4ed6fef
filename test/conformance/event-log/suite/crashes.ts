import { setTimeout } from 'node:timers/promises';
import { type EventLog, recordBytes, summedCountsIn, TOPIC } from '@tributary/core';
import { expect, it } from 'vitest';
import { type LogChild, startChild } from '../programs/child-process.ts';
import { copiesOf, type Numbered } from '../programs/copy-stages.ts';
import { type EventLogHarness, type Medium, RECEIVED, SOURCE, TARGET } from './harness.ts';
import { eventually, readAll } from './log-contents.ts';

const STOPS = process.env.TRIBUTARY_TEST_LONG ? 10 : 1;
const KEYS = 40;

/** Exactly-once processing through two stages in separate processes, with kills and stops at any time. */
export function describeCrashes(harness: EventLogHarness, medium: () => Medium, log: () => EventLog): void {
  const kills = process.env.TRIBUTARY_TEST_LONG ? 80 : (harness.kills ?? 4);

  it(`emits each record once and in order through ${kills} SIGKILLs`, { timeout: 600_000 }, async () => {
    const feed = startFeed(log());
    for (let kill = 0; kill < kills; kill++) {
      const child = startChild(harness, medium(), { mode: 'stages' });
      // Sometimes before it runs, else at any point of its work.
      if (kill % 3 === 2) await setTimeout(50 + Math.random() * 400);
      else await child.saw(() => child.lines.length > 0);
      await setTimeout(Math.random() * 150);
      await child.kill();
    }
    await feed.stop();
    const last = startChild(harness, medium(), { mode: 'stages' });
    await expectEachOnce(log(), feed.counts);
    await last.leave();
  });

  it(`lets only one of two owners commit (${STOPS} SIGSTOPs)`, { timeout: 600_000 }, async () => {
    const feed = startFeed(log());
    let owner = startChild(harness, medium(), { mode: 'stages' });
    const stopped: LogChild[] = [];
    for (let stop = 0; stop < STOPS; stop++) {
      await progress(log());
      const newer = await replaceStopped(owner, harness, medium(), log());
      owner.signal('SIGCONT');
      stopped.push(owner);
      await progress(log());
      owner = newer;
    }
    await feed.stop();
    await expectEachOnce(log(), feed.counts);
    await Promise.all([owner, ...stopped].map((child) => child.leave()));
  });
}

/** Appends to the packed topic without pause, many keys, numbered per key. */
function startFeed(log: EventLog): { readonly counts: ReadonlyMap<string, number>; stop(): Promise<void> } {
  const counts = new Map<string, number>();
  let stopping = false;
  const feeding = (async () => {
    while (!stopping) {
      const entries = Array.from({ length: 20 }, () => {
        const key = `key${Math.floor(Math.random() * KEYS)}`;
        const n = counts.get(key) ?? 0;
        counts.set(key, n + 1);
        return { key, value: JSON.stringify({ key, n } satisfies Numbered), headers: {} };
      });
      await log.append(RECEIVED, entries);
      await setTimeout(5);
    }
  })();
  // A test that fails before `stop` closes the log while appends continue.
  feeding.catch(() => {});
  return {
    counts,
    async stop() {
      stopping = true;
      await feeding;
    },
  };
}

async function emitted(log: EventLog): Promise<number> {
  const ends = Array.from({ length: log.topics.get(TARGET)?.partitions ?? 0 }, (_, i) => log.end(TARGET, i));
  return (await Promise.all(ends)).reduce((sum, end) => sum + end, 0);
}

async function progress(log: EventLog, withinMs?: number): Promise<void> {
  const before = await emitted(log);
  await eventually(async () => (await emitted(log)) > before + 50, 'nothing is emitted', withinMs);
}

/**
 * Stops the owner in the middle of its work and starts another. With an embedded engine the stopped process
 * may hold a lock, so it gets another moment.
 */
async function replaceStopped(
  owner: LogChild,
  harness: EventLogHarness,
  medium: Medium,
  log: EventLog,
): Promise<LogChild> {
  // A process stopped between its two ownership claims would make the second one when it continues, and
  // become the newest owner again.
  await owner.saw(() => owner.lines.some(({ ready }) => ready === true));
  owner.signal('SIGSTOP');
  const newer = startChild(harness, medium, { mode: 'stages' });
  for (let attempt = 0; ; attempt++) {
    try {
      await progress(log, 3_000);
      return newer;
    } catch (error) {
      if (attempt === 10) throw error;
      owner.signal('SIGCONT');
      await setTimeout(20);
      owner.signal('SIGSTOP');
    }
  }
}

async function expectEachOnce(log: EventLog, counts: ReadonlyMap<string, number>): Promise<void> {
  const expected = new Map<string, Numbered[]>();
  let total = 0;
  for (const [key, count] of counts) {
    const copies = Array.from({ length: count }, (_, n) => copiesOf({ key, n })).flat();
    expected.set(key, copies);
    total += copies.length;
  }
  // An end offset may count more than entries.
  await eventually(async () => (await emitted(log)) >= total, `${total} output records`, 60_000);
  await eventually(
    async () =>
      (await Promise.all([SOURCE, TARGET].map((topic) => readAll(log, topic)))).every(
        (all) => all.length >= total,
      ),
    `${total} entries`,
    60_000,
  );
  for (const topic of [SOURCE, TARGET]) {
    const read = Map.groupBy(await readAll(log, topic), ({ key }) => key);
    for (const [key, copies] of expected) {
      const values = (read.get(key) ?? []).map(({ value }) => JSON.parse(value));
      expect(values, `${topic} ${key}`).toEqual(copies);
    }
    expect([...read.keys()].filter((key) => !expected.has(key))).toEqual([]);
  }
  await expectCountedOnce(log, 'received', counts);
  const copies = [...expected].map(([key, { length }]) => [key, length] as const);
  await expectCountedOnce(log, 'created', new Map(copies.filter(([, count]) => count > 0)));
  await expectBytesCountedOnce(log);
}

/** The bytes that the counts name are those of the output records and of the counts themselves. */
async function expectBytesCountedOnce(log: EventLog): Promise<void> {
  const counts = await readAll(log, TOPIC.funnelCounts);
  const [counted, ...others] = summedCountsIn(counts.map((record) => ({ ...record, timestamp: 0 }))).bytes;
  expect(others).toEqual([]);
  const written = (await Promise.all([SOURCE, TARGET].map((topic) => readAll(log, topic)))).flat();
  const cells = counts.flatMap(({ value }) => (JSON.parse(value) as { cells: unknown[] }).cells);
  const sum = (bytes: readonly number[]) => bytes.reduce((all, each) => all + each, 0);
  expect(counted?.written).toBe(
    sum(written.map(recordBytes)) + sum(cells.map((cell) => Buffer.byteLength(JSON.stringify(cell)))),
  );
}

/** Waits for the counts of the stages: they may be in a commit behind that of the last outputRecord. */
async function expectCountedOnce(
  log: EventLog,
  measure: string,
  counts: ReadonlyMap<string, number>,
): Promise<void> {
  const counted = async () => {
    const found = new Map<string, number>();
    for (const record of await readAll(log, TOPIC.funnelCounts))
      for (const { name = '', measures, count } of summedCountsIn([record]).increments)
        if (measures === measure) found.set(name, (found.get(name) ?? 0) + count);
    return found;
  };
  const sum = (found: ReadonlyMap<string, number>) =>
    [...found.values()].reduce((all, each) => all + each, 0);
  await eventually(async () => sum(await counted()) >= sum(counts), `${measure} counted`, 60_000);
  expect(await counted()).toEqual(counts);
}
