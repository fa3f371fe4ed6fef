import { setTimeout as sleep } from 'node:timers/promises';
import {
  type BatchStage,
  type LogEntry,
  NO_LOGGER,
  NO_METRICS,
  Rewind,
  type Source,
  Unavailable,
} from '@tributary/core';
import { describe, expect, it, onTestFinished } from 'vitest';
import { crashWatch } from '../suspects/crash-watch.ts';
import type { Cursor, Taken } from './cursor.ts';
import { dueNow } from './due.ts';
import { type FetchLimits, type OwnedPartition, PartitionLoop } from './partition-loop.ts';
import { pause } from './waiting.ts';

const POSITION_MS = 120;

/** A partition in memory whose commits are throttled. */
class ThrottledPartition implements OwnedPartition {
  readonly topic = 't';
  readonly partition = 0;
  readonly throttle = { pauseAfter: () => 5, positionMs: POSITION_MS };
  committed: Cursor = { offset: 0, index: 0 };
  readonly stored: number[] = [];
  end = async () => this.#written;
  #written = 0;
  /** The number of commits in a row without an answer. */
  outages = 0;

  write(entries: number): void {
    this.#written += entries;
  }

  async fetch(from: Cursor, { maxEntries, waitMs }: FetchLimits, signal: AbortSignal): Promise<Taken[]> {
    const until = performance.now() + (waitMs ?? Number.POSITIVE_INFINITY);
    while (from.offset >= this.#written && !signal.aborted && performance.now() < until)
      await pause(5, signal);
    const count = signal.aborted ? 0 : Math.min(maxEntries, this.#written - from.offset);
    return Array.from({ length: Math.max(0, count) }, (_, n) => taken(from.offset + n));
  }

  async commit(_from: Cursor, to: Cursor): Promise<void> {
    if (this.outages > 0) {
      this.outages -= 1;
      throw new Unavailable('no answer');
    }
    this.committed = to;
    this.stored.push(to.offset);
  }
}

/** A log without the topic of noted crashes. */
const NO_NOTES = { topics: new Map(), read: async () => ({ entries: [], next: 0 }), end: async () => 0 };

function taken(offset: number): Taken {
  const position = { topic: 't', partition: 0, offset, index: 0 };
  const entry: LogEntry = { position, key: '', value: '', headers: {}, timestamp: 0 };
  return { entry, after: { offset: offset + 1, index: 0 } };
}

interface Setting {
  readonly dueAt?: (entry: LogEntry) => number;
  readonly repeats?: BatchStage['repeats'];
  readonly process?: (offsets: readonly number[]) => void;
}

/** A running stage without output records on such a partition, two entries at a time. */
function atWork({ dueAt, repeats, process }: Setting = {}) {
  const owned = new ThrottledPartition();
  const handled: number[] = [];
  const source = dueAt === undefined ? { topic: 't' } : { topic: 't', dueAt };
  const stage: BatchStage = {
    kind: 'batch',
    name: 's',
    reads: [source],
    writes: [],
    maxEntries: 2,
    ...(repeats === undefined ? {} : { repeats }),
    process: async ({ entries }) => {
      const offsets = entries.map(({ position }) => position.offset);
      process?.(offsets);
      handled.push(...offsets);
      return [];
    },
  };
  const [stopping, leaving] = [new AbortController(), new AbortController()];
  const loop = new PartitionLoop({
    stage,
    source,
    owned,
    stopping: stopping.signal,
    crashes: crashWatch(NO_NOTES),
    leaving: leaving.signal,
    backoff: { firstMs: 1, capMs: 1 },
    fetchBytes: 1_000_000,
    maxUncommitted: 1_000,
    clock: Date.now,
    metrics: NO_METRICS,
    logger: NO_LOGGER,
  });
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
    const { owned, loop, until } = atWork();
    owned.write(8);
    await until(8);
    expect(owned.stored).toEqual([2]);
    expect(loop.reached.offset).toBe(8);
    await expect.poll(() => owned.stored).toEqual([2, 8]);
    await sleep(POSITION_MS * 2);
    expect(owned.stored).toEqual([2, 8]);
  });

  it('are stored again and again while there is always something', async () => {
    const { owned, stop } = atWork();
    const writing = setInterval(() => owned.write(1), 4);
    onTestFinished(() => clearInterval(writing));
    await expect.poll(() => owned.stored.length).toBeGreaterThan(2);
    await stop();
  });

  it('are all stored when the stage has stopped, however it was disturbed', async () => {
    for (const outages of [0, 1, 3]) {
      const { owned, handled, stop, until } = atWork();
      owned.write(5);
      await until(5);
      owned.outages = outages;
      await stop();
      expect(owned.committed.offset).toBe(handled.length);
    }
  });

  it('do not hold a stop up when the engine is away for long', async () => {
    const { owned, stop, until } = atWork();
    owned.write(4);
    await until(4);
    owned.outages = Number.POSITIVE_INFINITY;
    const stoppedAt = performance.now();
    await stop();
    expect(performance.now() - stoppedAt).toBeLessThan(5_000);
    expect(owned.committed.offset).toBe(2);
  });

  it('are stored while the next entry is not due for long', async () => {
    const { owned, until } = atWork({
      dueAt: ({ position }) => (position.offset < 6 ? 0 : Date.now() + 1e6),
    });
    owned.write(7);
    await until(6);
    await expect.poll(() => owned.stored.at(-1)).toBe(6);
  });

  it('go back with a rewind: nothing is stored that was not done again', async () => {
    let rewinds = 1;
    const process = ([first = 0]: readonly number[]) => {
      if (first === 6 && rewinds-- > 0) throw new Rewind(3);
    };
    const { owned, handled, until, stop } = atWork({ process });
    owned.write(8);
    await until(12);
    expect(handled).toEqual([0, 1, 2, 3, 4, 5, 2, 3, 4, 5, 6, 7]);
    await stop();
    expect(owned.committed.offset).toBe(8);
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

const inTen: Source = { topic: 't', dueAt: (entry) => entry.timestamp + 10 };

describe('due', () => {
  it('is every entry at once without a due time', () => {
    expect(dueNow({ topic: 't' }, entriesAt(1, 2), 0, 0)).toEqual({ count: 2 });
  });

  it('is the prefix whose time has come', () => {
    expect(dueNow(inTen, entriesAt(1, 2, 3), 12, 12)).toEqual({ count: 2 });
  });

  it('is no entry while the first is not, also when one behind it is', () => {
    expect(dueNow(inTen, entriesAt(9, 1), 12, 12)).toEqual({ count: 0, wakeAt: 19 });
  });

  it('is an entry whose source throws, so that the stage receives it', () => {
    const throwing: Source = {
      topic: 't',
      dueAt: () => {
        throw new Error('no due time');
      },
    };
    expect(dueNow(throwing, entriesAt(1), 0, 0)).toEqual({ count: 1 });
    expect(dueNow({ topic: 't', dueAt: () => Number.NaN }, entriesAt(1), 0, 0)).toEqual({ count: 1 });
  });

  it('counts a timestamp of a clock that is ahead as the time of the read', () => {
    expect(dueNow(inTen, entriesAt(5_000), 100, 109)).toEqual({ count: 0, wakeAt: 110 });
    expect(dueNow(inTen, entriesAt(5_000), 100, 110)).toEqual({ count: 1 });
  });
});
