import { setTimeout as sleep } from 'node:timers/promises';
import { type BatchStage, type LogEntry, NO_LOGGER, NO_METRICS, type Source } from '@tributary/core';
import { describe, expect, it, onTestFinished } from 'vitest';
import {
  AppendTimes,
  appendTimes,
  createRunner,
  entriesFrom,
  PartitionLoop,
  type Read,
  RecentReads,
  SharedReads,
} from './partition-loop.ts';
import {
  type Cursor,
  type FetchLimits,
  type OwnedPartition,
  pause,
  type StageSpace,
  type Taken,
} from './work.ts';

const POSITION_MS = 120;

/** A partition in memory whose commits are throttled. */
class ThrottledPartition implements OwnedPartition {
  readonly topic = 't';
  readonly partition = 0;
  readonly throttle;
  committed: Cursor = { offset: 0, index: 0 };
  readonly stored: number[] = [];
  end = async () => this.#written;
  #written = 0;
  readonly #clock: () => number;
  readonly #stamps: number[] = [];

  constructor(clock: () => number, positionMs: number) {
    this.#clock = clock;
    this.throttle = { pauseAfter: () => 5, positionMs };
  }

  write(entries: number): void {
    for (let n = 0; n < entries; n++) this.#stamps.push(this.#clock());
    this.#written += entries;
  }

  async fetch(from: Cursor, { maxEntries, waitMs }: FetchLimits, signal: AbortSignal): Promise<Taken[]> {
    const until = performance.now() + (waitMs ?? Number.POSITIVE_INFINITY);
    while (from.offset >= this.#written && !signal.aborted && performance.now() < until)
      await pause(5, signal);
    const count = signal.aborted ? 0 : Math.min(maxEntries, this.#written - from.offset);
    return Array.from({ length: Math.max(0, count) }, (_, n) =>
      taken(from.offset + n, this.#stamps[from.offset + n]),
    );
  }

  async commit(_from: Cursor, to: Cursor): Promise<void> {
    this.committed = to;
    this.stored.push(to.offset);
  }
}

/** A log without the topic of noted crashes. */
const NO_NOTES = { topics: new Map(), read: async () => ({ entries: [], next: 0 }), end: async () => 0 };

function taken(offset: number, timestamp = 0): Taken {
  const position = { topic: 't', partition: 0, offset, index: 0 };
  const entry: LogEntry = { position, key: '', value: '', headers: {}, timestamp };
  return { entry, after: { offset: offset + 1, index: 0 } };
}

interface Setting {
  /** The entries from this offset on are never due. */
  readonly end?: number;
  /** Entries are due so long after they were appended, ms. */
  readonly delayMs?: number;
  readonly clock?: () => number;
  readonly positionMs?: number;
  readonly repeats?: BatchStage['repeats'];
  readonly space?: StageSpace;
  /** Topics to which it emits a record for each batch. */
  readonly writes?: readonly string[];
}

/** A running stage without output records on such a partition, two entries at a time. */
function atWork({
  end,
  delayMs,
  clock = Date.now,
  positionMs = POSITION_MS,
  repeats,
  space,
  writes = [],
}: Setting = {}) {
  const owned = new ThrottledPartition(clock, positionMs);
  const handled: number[] = [];
  const source: Source = {
    topic: 't',
    ...(end === undefined ? {} : { end: () => end }),
    ...(delayMs === undefined ? {} : { dueAt: (appendedAt) => appendedAt + delayMs }),
  };
  const stage: BatchStage = {
    kind: 'batch',
    name: 's',
    reads: [source],
    writes,
    maxEntries: 2,
    ...(repeats === undefined ? {} : { repeats }),
    process: async ({ entries }) => {
      const offsets = entries.map(({ position }) => position.offset);
      handled.push(...offsets);
      return writes.map((topic) => ({ topic, key: 'k', value: '{}', headers: {} }));
    },
  };
  const [stopping, leaving] = [new AbortController(), new AbortController()];
  const runner = createRunner(NO_NOTES, {
    ...(space && { space }),
    backoff: { firstMs: 1, capMs: 1 },
    clock,
    metrics: NO_METRICS,
    logger: NO_LOGGER,
  });
  const signals = { stopping: stopping.signal, leaving: leaving.signal };
  const loop = new PartitionLoop({ runner, ...signals, stage, source, owned });
  const ended = loop.run();
  const stop = async () => {
    stopping.abort();
    await ended;
  };
  onTestFinished(async () => {
    leaving.abort(new Error('the test is over'));
    await stop();
  });
  const until = (count: number) => expect.poll(() => handled.length, { interval: 2 }).toBe(count);
  return { owned, loop, handled, stop, until };
}

describe('positions without emissions, on an engine that throttles commits', () => {
  it('are stored once for many batches, and when nothing comes any more', async () => {
    // Long enough for four batches, also where this process waits for a processor.
    const { owned, loop, until } = atWork({ positionMs: 1_000 });
    owned.write(8);
    await until(8);
    expect(owned.stored).toEqual([2]);
    expect(loop.reached.offset).toBe(8);
    await expect.poll(() => owned.stored).toEqual([2, 8]);
    await sleep(POSITION_MS * 2);
    expect(owned.stored).toEqual([2, 8]);
  });

  it('are stored while the next entry is not due for long', async () => {
    const { owned, until } = atWork({ end: 6 });
    owned.write(7);
    await until(6);
    await expect.poll(() => owned.stored.at(-1)).toBe(6);
  });

  it('of a stage whose repetitions are visible are stored with every batch', async () => {
    const { owned, until } = atWork({ repeats: 'visible' });
    owned.write(6);
    await until(6);
    await expect.poll(() => owned.stored).toEqual([2, 4, 6]);
  });
});

function entriesAt(...timestamps: number[]): { entry: LogEntry }[] {
  return timestamps.map((timestamp, offset) => ({
    entry: {
      key: '',
      value: '1',
      headers: {},
      timestamp,
      position: { topic: 't', partition: 0, offset, index: 0 },
    },
  }));
}

describe('when entries were appended', () => {
  const UNKNOWN = { offset: 0, at: 0 };

  it('is no later than for the entries behind them, though a clock was set back in between', () => {
    expect(appendTimes(entriesAt(1, 9_000, 9_001, 3, 4), 10_000, UNKNOWN)).toEqual([1, 3, 3, 3, 4]);
  });

  it('is at most when they were read, and when the log was known to reach so far', () => {
    expect(appendTimes(entriesAt(5_000, 6_000), 100, UNKNOWN)).toEqual([100, 100]);
    expect(appendTimes(entriesAt(5_000, 6_000, 7_000), 100, { offset: 2, at: 40 })).toEqual([40, 40, 100]);
  });

  it('made each entry wait for a whole delay more after a clock was ahead: the end is asked for once', async () => {
    const time = { now: 100, asked: 0 };
    const times = new AppendTimes(
      () => time.now,
      async () => {
        time.asked += 1;
        return 3;
      },
    );
    expect(await times.of(entriesAt(5_000, 6_000))).toEqual([100, 100]);
    time.now = 4_000;
    expect(await times.of(entriesAt(0, 0, 7_000, 8_000).slice(2))).toEqual([100, 4_000]);
    expect(time.asked).toBe(2);
    expect(await times.of(entriesAt(5_000))).toEqual([4_000]);
  });
});

describe('a full disk', () => {
  it('was written until it had no byte left: no more entries are taken, and all of them later', async () => {
    let isFull = true;
    const { owned, handled, until } = atWork({ space: { isFull: () => isFull, isSpent: () => false } });
    owned.write(4);
    await sleep(50);
    expect(handled).toEqual([]);
    isFull = false;
    await until(4);
  });

  it('keeps what is left for removals: output waits, and is committed once there is space', async () => {
    let isSpent = true;
    const space = { isFull: () => false, isSpent: () => isSpent };
    const { owned, until } = atWork({ space, writes: ['out'] });
    owned.write(2);
    await until(2);
    await sleep(20);
    expect(owned.committed.offset).toBe(0);
    isSpent = false;
    await expect.poll(() => owned.committed.offset).toBe(2);
  });
});

it('a partition waited for a day after a clock that was a day ahead was set right: now for one delay', async () => {
  let aheadMs = 24 * 3_600_000;
  const { owned, until } = atWork({ delayMs: 300, clock: () => Date.now() + aheadMs });
  owned.write(1);
  await sleep(100);
  aheadMs = 0;
  owned.write(2);
  await until(3);
});

/** The entries of these offsets, one in each record; `next` is behind records that are not visible. */
function readOf(
  offsets: readonly number[],
  from = offsets[0] ?? 0,
  next = (offsets.at(-1) ?? from) + 1,
): Read {
  const taken = offsets.map(
    (offset): Taken => ({
      entry: {
        position: { topic: 't', partition: 0, offset, index: 0 },
        key: '',
        value: `${offset}`,
        headers: {},
        timestamp: 0,
      },
      after: { offset: offset + 1, index: 0 },
    }),
  );
  return { from: { offset: from, index: 0 }, after: { offset: next, index: 0 }, taken };
}

const at = (offset: number) => ({ offset, index: 0 });
const values = (read: Read | undefined, offset: number) =>
  read && entriesFrom(read, at(offset)).map(({ entry }) => entry.value);

describe('RecentReads', () => {
  it('goes past records that are not visible, also where there are no others', () => {
    const recent = new RecentReads();
    recent.add(readOf([], 2, 5));
    recent.add(readOf([7, 9], 5, 12));
    expect(values(recent.find(at(3)), 3)).toEqual([]);
    expect(values(recent.find(at(8)), 8)).toEqual(['9']);
    expect(values(recent.find(at(10)), 10)).toEqual([]);
  });

  it('waits for the request of another stage, and finds its answer later', async () => {
    const recent = new RecentReads();
    const answer = Promise.withResolvers<Read>();
    let requests = 0;
    const request = () => {
      requests++;
      return answer.promise;
    };
    const both = [recent.findOr(8, request), recent.findOr(8, request)];
    answer.resolve(readOf([8, 9]));
    const [first, second] = await Promise.all(both);
    expect(second).toBe(first);
    expect(await recent.findOr(9, request)).toBe(first);
    expect(requests).toBe(1);
  });

  it.each([
    ['stopped', () => Promise.resolve(undefined)],
    ['failed', () => Promise.reject(new Error('gone'))],
  ])('requests for itself where the other stage %s', async (_, others) => {
    const recent = new RecentReads();
    const first = recent.findOr(8, others).catch(() => 'failed');
    const second = recent.findOr(8, async () => readOf([8]));
    expect(values(await second, 8)).toEqual(['8']);
    expect(await first).not.toEqual(expect.objectContaining({ taken: expect.anything() }));
  });
});

describe('SharedReads', () => {
  it('keeps reads of topics that more than one stage reads, while they do', () => {
    const shared = new SharedReads();
    shared.join(['a', 'b']);
    expect(shared.of('a', 0)).toBeUndefined();
    const leave = shared.join(['a']);
    shared.of('a', 0)?.add(readOf([1]));
    expect(values(shared.of('a', 0)?.find(at(1)), 1)).toEqual(['1']);
    expect(shared.of('a', 1)?.find(at(1))).toBeUndefined();
    expect(shared.of('b', 0)).toBeUndefined();
    leave();
    expect(shared.of('a', 0)).toBeUndefined();
    shared.join(['a']);
    expect(shared.of('a', 0)?.find(at(1))).toBeUndefined();
  });
});
