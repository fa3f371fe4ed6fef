import { setTimeout as sleep } from 'node:timers/promises';
import {
  asyncHandler,
  type FlowStage,
  type LogEntry,
  NO_LOGGER,
  NO_METRICS,
  type OutputRecord,
  Unavailable,
} from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { COMMIT_BYTES, FlowWindow, FlowWork } from './flow-work.ts';
import { createRunner } from './partition-loop.ts';
import { InFlightTable } from './suspects.ts';
import { Committer, type Cursor, type Work } from './work.ts';

/** A log without the topic of noted crashes. */
const NO_CRASHES = { topics: new Map(), read: async () => ({ entries: [], next: 0 }), end: async () => 0 };

const PAUSE_MS = 150;
const POSITION_PAUSE_MS = 60_000;
/** The value of an entry without output records. */
const NOTHING = 'nothing';

/** A running flow stage that pauses after each commit, and the committed offsets with their times. */
function setUp({
  windowBytes = 1_000_000,
  pauseMs = PAUSE_MS,
  before = async (_: LogEntry) => {},
  canAccept = (): boolean => true,
} = {}) {
  const commits: { readonly to: number; readonly at: number }[] = [];
  const stopping = new AbortController();
  const signal = new AbortController().signal;
  const owned = {
    topic: 't',
    partition: 0,
    committed: { offset: 0, index: 0 },
    commit: async (_from: Cursor, to: Cursor) => {
      commits.push({ to: to.offset, at: performance.now() });
    },
    throttle: { pauseAfter: () => pauseMs, positionMs: POSITION_PAUSE_MS },
  };
  const runner = createRunner(NO_CRASHES, {
    backoff: { firstMs: 1, capMs: 1 },
    maxUncommitted: 1_000,
    metrics: NO_METRICS,
    logger: NO_LOGGER,
  });
  const committer = new Committer({ name: 's' }, owned, runner);
  const stage: FlowStage = {
    kind: 'flow',
    name: 's',
    reads: [{ topic: 't' }],
    writes: ['out'],
    windowBytes,
    canAccept,
    handle: asyncHandler(async (entry) => {
      await before(entry);
      const { key, value } = entry;
      return value === NOTHING ? [] : [{ topic: 'out', key, value, headers: {} }];
    }),
  };
  const work: Work = {
    runner,
    stage,
    committer,
    inFlight: new InFlightTable().open({ stage: 's', topic: 't', partition: 0 }),
    context: { signal },
    signal,
    stopping: stopping.signal,
  };
  const flow = new FlowWork(stage, work);
  const tryAdmit = (offset: number, value = 'x', headers: LogEntry['headers'] = {}) => {
    const position = { topic: 't', partition: 0, offset, index: 0 };
    const entry: LogEntry = { position, key: 'k', value, headers, timestamp: 0 };
    return flow.tryAdmit({ entry, after: { offset: offset + 1, index: 0 } });
  };
  const admit = (offset: number, value?: string) => expect(tryAdmit(offset, value)).toBe(true);
  return { flow, commits, stopping, admit, tryAdmit };
}

describe('a flow stage on an engine that throttles commits', () => {
  it('commits the first entry at once, and those that finish during the pause together', async () => {
    const { flow, commits, admit } = setUp();
    admit(0);
    await flow.drained();
    for (const offset of [1, 2, 3]) admit(offset);
    await flow.drained();
    expect(commits.map(({ to }) => to)).toEqual([1, 4]);
    const [first, second] = commits.map(({ at }) => at);
    expect((second ?? 0) - (first ?? 0)).toBeGreaterThanOrEqual(PAUSE_MS - 5);
  });

  it('does not pause with much to commit', async () => {
    const pauseMs = 60_000;
    const { flow, commits, admit } = setUp({ windowBytes: 1_600, pauseMs });
    admit(0);
    await flow.drained();
    admit(1, 'x'.repeat(100));
    await flow.drained();
    const [first, second] = commits.map(({ at }) => at);
    expect((second ?? 0) - (first ?? 0)).toBeLessThan(pauseMs);
  });

  it('rests longer with positions alone, until something is emitted', async () => {
    const { flow, commits, admit } = setUp();
    admit(0);
    await flow.drained();
    admit(1, NOTHING);
    await sleep(PAUSE_MS * 1.5);
    expect(commits.map(({ to }) => to)).toEqual([1]);
    admit(2);
    await flow.drained();
    expect(commits.map(({ to }) => to)).toEqual([1, 3]);
  });

  it('takes the next one as soon as an engine has answered, whatever happens to the entry that waited', async () => {
    const failures: Error[] = [new Unavailable('no answer'), new Error('a fault')];
    const { promise: isOver, resolve: end } = Promise.withResolvers<void>();
    const { flow, admit } = setUp({
      before: async ({ position }) => {
        if (position.offset > 0) return;
        const failure = failures.shift();
        if (failure) throw failure;
        await isOver;
      },
    });
    admit(0);
    await expect.poll(() => failures.length).toBe(1);
    await flow.changed();
    admit(1);
    end();
    await flow.drained();
  });
});

it('the window was filled by values alone: small records count with their headers', async () => {
  const { promise: isOver, resolve: end } = Promise.withResolvers<void>();
  const { flow, tryAdmit } = setUp({ windowBytes: 5_100, before: () => isOver });
  const headers = { name: 'h'.repeat(1_000) };
  const admitted = Array.from({ length: 20 }, (_, offset) => tryAdmit(offset, 'x', headers));
  expect(admitted.filter(Boolean)).toHaveLength(5);
  end();
  await flow.drained();
});

it('a stage under backpressure is asked again although nothing changes', async () => {
  const wants = { more: false };
  const { flow, tryAdmit } = setUp({ canAccept: () => wants.more });
  expect(tryAdmit(0)).toBe(false);
  const changed = flow.changed();
  wants.more = true;
  await changed;
  expect(tryAdmit(0)).toBe(true);
  await flow.drained();
});

describe('the window of a flow stage', () => {
  const outputRecord = (bytes: number): OutputRecord => {
    return { topic: 'deliveries', key: '', value: 'x'.repeat(bytes), headers: {} };
  };
  const admitTo = (window: FlowWindow, offset: number) => {
    const position = { topic: 't', partition: 0, offset, index: 0 };
    const entry: LogEntry = { position, key: 'k', value: 'x', headers: {}, timestamp: 0 };
    return window.admit({ entry, after: { offset: offset + 1, index: 0 } }, 1);
  };

  it('cuts finished entries into commits of bounded bytes, with a larger entry alone', () => {
    const window = new FlowWindow({ bytes: 1_000, entries: 10 });
    const sizes = [COMMIT_BYTES / 2, COMMIT_BYTES / 2 - 1_000, COMMIT_BYTES / 2, COMMIT_BYTES + 1, 1];
    for (const [n, bytes] of sizes.entries()) window.finish(admitTo(window, n), [outputRecord(bytes)]);
    const prefixes = Array.from({ length: 5 }, () => window.takeFinished());
    expect(prefixes.map((prefix) => prefix?.slots.length)).toEqual([2, 1, 1, 1, undefined]);
    for (const prefix of prefixes) if (prefix) window.release(prefix);
    expect(window.uncommitted).toBe(0);
  });

  it('lets only the oldest entry make more while finished entries fill it', () => {
    const window = new FlowWindow({ bytes: 1_000, entries: 10 });
    const [oldest, behind, last] = [admitTo(window, 0), admitTo(window, 1), admitTo(window, 2)];
    expect([oldest, last].map((slot) => window.mayEmit(slot))).toEqual([true, true]);
    window.finish(behind, [outputRecord(1_000)]);
    expect([oldest, last].map((slot) => window.mayEmit(slot))).toEqual([true, false]);
    window.finish(oldest, []);
    window.takeFinished();
    expect(window.mayEmit(last)).toBe(true);
  });
});
