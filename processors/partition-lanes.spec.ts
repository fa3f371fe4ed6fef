import type { Crowd, LogEntry } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { PartitionLanes, type Stay } from './partition-lanes.ts';

function setUp() {
  const time = { now: 0 };
  const lanes = new PartitionLanes(() => time.now, { windowBytes: 800, share: 1 / 8, slowAfterMs: 500 });
  const entry: LogEntry = {
    position: { topic: 't', partition: 0, offset: 0, index: 0 },
    timestamp: 0,
    key: '',
    headers: {},
    value: '',
  };
  /** Resolves to what ends the work, or to undefined for who is turned away. */
  const enter = (key: string, bytes = 60, crowd?: Crowd) =>
    new Promise<(() => void) | undefined>((resolve) => {
      const entrant = {
        entered: (stay: Stay) => resolve(() => stay.leave()),
        turnedAway: () => resolve(undefined),
      };
      lanes.enter(entry, key, bytes, entrant, crowd);
    });
  return { time, lanes, entry, enter };
}

const pending = Symbol('pending');
const stateOf = <T>(promise: Promise<T>) => Promise.race([promise, Promise.resolve(pending)]);

describe('the lanes of a stage', () => {
  it('a quick key waits for its own work, in order, and goes to no slow lane for being busy', async () => {
    const { enter } = setUp();
    const first = await enter('a');
    const [second, third] = [enter('a'), enter('a')];
    expect(await stateOf(second)).toBe(pending);
    expect(await stateOf(enter('b'))).toBeTypeOf('function');
    first?.();
    expect(await second).toBeTypeOf('function');
    expect(await stateOf(third)).toBe(pending);
    (await second)?.();
    expect(await third).toBeTypeOf('function');
  });

  it('what waits behind work that turns out slow goes to the slow lane at once', async () => {
    const { time, enter } = setUp();
    const first = await enter('a');
    const behind = [enter('a'), enter('a')];
    time.now = 501;
    first?.();
    expect(await Promise.all(behind)).toEqual([undefined, undefined]);
    expect(await enter('a')).toBeUndefined();
  });

  it('what waits for a long crowd goes to the slow lane after a while, but not for a fault of the process', async () => {
    const { time, enter } = setUp();
    const load = { overloaded: true };
    const crowd = { waitMs: () => 5_000, overloaded: () => load.overloaded };
    const first = await enter('a', 60, crowd);
    expect(first).toBeTypeOf('function');
    const behind = [enter('a', 5, crowd), enter('a', 5, crowd)];
    time.now = 5_001;
    await new Promise((resolve) => setTimeout(resolve, 60));
    expect(await stateOf(Promise.any(behind))).toBe(pending);
    load.overloaded = false;
    time.now = 10_100;
    expect(await Promise.all(behind)).toEqual([undefined, undefined]);
    first?.();
  });

  it('thousands that end as soon as they begin do so one after the other, in order, each once', async () => {
    const { lanes, entry, enter } = setUp();
    const first = await enter('a', 100);
    const ended: number[] = [];
    for (let n = 0; n < 20_000; n++)
      lanes.enter(entry, 'a', 100, {
        entered(stay) {
          ended.push(n);
          stay.leave();
        },
        turnedAway: () => ended.push(-1),
      });
    first?.();
    expect(ended).toEqual(Array.from({ length: 20_000 }, (_, n) => n));
    expect(await enter('a', 100)).toBeTypeOf('function');
  });

  describe('of one key that is alone', () => {
    const aside = { topic: 't', partition: 0 };
    const wants = (lanes: PartitionLanes) => lanes.wantsMore(aside.topic, aside.partition);

    it('take no more than a share of the window beside what is under way, until half of it is done', async () => {
      const { lanes, enter } = setUp();
      expect(wants(lanes)).toBe(true);
      const ends = [enter('a', 100), enter('a', 60), enter('a', 30)];
      expect(wants(lanes)).toBe(true);
      ends.push(enter('a', 10));
      expect(wants(lanes)).toBe(false);
      (await ends[0])?.();
      expect(wants(lanes)).toBe(true);
      expect(lanes.wantsMore('t', 1)).toBe(true);
    });

    it('look past it once it waits, and whenever others come', async () => {
      const { time, lanes, enter } = setUp();
      const fill = () => [100, 60, 60].map((bytes) => enter('a', bytes));
      const [first] = fill();
      expect(wants(lanes)).toBe(false);
      time.now = 100;
      expect(wants(lanes)).toBe(true);
      (await first)?.();
      time.now = 150;
      fill();
      enter('b', 1);
      expect(wants(lanes)).toBe(true);
    });
  });
});
