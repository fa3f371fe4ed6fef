import type { LogEntry } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import type { QueuePressure } from './fair-share-window.ts';
import { PartitionWindows } from './partition-windows.ts';

function setUp() {
  const time = { now: 0 };
  const windows = new PartitionWindows(() => time.now, { windowBytes: 800, share: 1 / 8, slowAfterMs: 500 });
  const entry: LogEntry = {
    position: { topic: 't', partition: 0, offset: 0, index: 0 },
    timestamp: 0,
    key: '',
    headers: {},
    value: '',
  };
  const enter = (key: string, bytes = 60, pressure?: QueuePressure) =>
    windows.enter(entry, key, bytes, pressure);
  return { time, windows, enter };
}

const pending = Symbol('pending');
const stateOf = <T>(promise: Promise<T>) => Promise.race([promise, Promise.resolve(pending)]);

describe('the fair-share windows of a stage', () => {
  it('a quick key waits for its own work, in order, and goes to no slow queue for being busy', async () => {
    const { enter } = setUp();
    const first = await enter('a');
    const [second, third] = [enter('a'), enter('a')];
    expect(await stateOf(second)).toBe(pending);
    expect(await stateOf(enter('b'))).toBeDefined();
    first?.release();
    expect(await second).toBeDefined();
    expect(await stateOf(third)).toBe(pending);
    (await second)?.release();
    expect(await third).toBeDefined();
  });

  it('entries behind work that turns out slow go to the slow queue at once', async () => {
    const { time, enter } = setUp();
    const first = await enter('a');
    const behind = [enter('a'), enter('a')];
    time.now = 501;
    first?.release();
    expect(await Promise.all(behind)).toEqual([undefined, undefined]);
    expect(await enter('a')).toBeUndefined();
  });

  it('entries that wait under a long pressure go to the slow queue after a while', async () => {
    const { time, enter } = setUp();
    const pressure = { waitMs: () => 5_000, isSlow: () => false };
    const first = await enter('a', 60, pressure);
    expect(first).toBeDefined();
    const behind = [enter('a', 5, pressure), enter('a', 5, pressure)];
    time.now = 4_999;
    await new Promise((resolve) => setTimeout(resolve, 60));
    expect(await stateOf(Promise.any(behind))).toBe(pending);
    time.now = 5_000;
    expect(await Promise.all(behind)).toEqual([undefined, undefined]);
    first?.release();
  });

  it('thousands that end as soon as they begin do so one after the other, in order, each once', async () => {
    const { enter } = setUp();
    const first = await enter('a', 100);
    const ended: number[] = [];
    const waiting = Array.from({ length: 20_000 }, async (_, n) => {
      const permit = await enter('a', 100);
      ended.push(permit === undefined ? -1 : n);
      permit?.release();
    });
    first?.release();
    await Promise.all(waiting);
    expect(ended).toEqual(Array.from({ length: 20_000 }, (_, n) => n));
    expect(await enter('a', 100)).toBeDefined();
  });

  describe('of one key that is alone', () => {
    const accepts = (windows: PartitionWindows) => windows.canAccept('t', 0);

    it('take no more than a share of the window beside entries under way, until half of it is done', async () => {
      const { windows, enter } = setUp();
      expect(accepts(windows)).toBe(true);
      const ends = [enter('a', 100), enter('a', 60), enter('a', 30)];
      expect(accepts(windows)).toBe(true);
      ends.push(enter('a', 10));
      expect(accepts(windows)).toBe(false);
      (await ends[0])?.release();
      expect(accepts(windows)).toBe(true);
      expect(windows.canAccept('t', 1)).toBe(true);
    });

    it('look past it once it waits, and whenever others come', async () => {
      const { time, windows, enter } = setUp();
      const fill = () => [100, 60, 60].map((bytes) => enter('a', bytes));
      const [first] = fill();
      expect(accepts(windows)).toBe(false);
      time.now = 100;
      expect(accepts(windows)).toBe(true);
      (await first)?.release();
      time.now = 150;
      fill();
      enter('b', 1);
      expect(accepts(windows)).toBe(true);
    });
  });
});
