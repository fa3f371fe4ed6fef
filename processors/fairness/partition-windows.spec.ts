import type { LogEntry } from '@tributary/core';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  DEFAULT_WINDOW,
  FairShareWindow,
  PartitionWindows,
  type QueuePressure,
  type WindowOptions,
  type WindowWork,
} from './partition-windows.ts';

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

function windowOf(options: Partial<WindowOptions> = {}): FairShareWindow {
  return new FairShareWindow({ ...DEFAULT_WINDOW, windowBytes: 8_000, ...options });
}

describe('the window of a partition', () => {
  it('lets a key wait that would fill more than its share', () => {
    const window = windowOf();
    window.begin('a', 600, 0);
    expect(window.decide('a', 400, 0)).toBe('admit');
    expect(window.decide('a', 401, 0)).toBe('wait');
  });

  it('leaves the other keys alone', () => {
    const window = windowOf();
    window.begin('a', 1_000, 0);
    expect(window.decide('b', 1_000, 0)).toBe('admit');
  });

  it('sends a key aside while its oldest work is old', () => {
    const window = windowOf();
    const oldest = window.begin('a', 10, 0);
    window.begin('a', 10, 400);
    expect(window.decide('a', 10, 500)).toBe('admit');
    expect(window.decide('a', 10, 501)).toBe('slow');
    window.end(oldest, 500);
    expect(window.decide('a', 10, 501)).toBe('admit');
  });

  it('has the oldest remaining entry as its oldest, in any order of completion', () => {
    const window = windowOf();
    const [first, second, third] = [0, 100, 200, 300].map((at) => window.begin('a', 10, at));
    if (!first || !second || !third) throw new Error('no work');
    window.end(second, 300);
    expect(window.decide('a', 10, 501)).toBe('slow');
    window.end(first, 400);
    expect(window.decide('a', 10, 700)).toBe('admit');
    expect(window.decide('a', 10, 701)).toBe('slow');
    window.end(third, 600);
    expect(window.decide('a', 10, 800)).toBe('admit');
    expect(window.decide('a', 10, 801)).toBe('slow');
  });

  it('keeps a key aside for a while after work of it took long, and then tries again', () => {
    const window = windowOf({ slowForMs: 1_000 });
    window.end(window.begin('a', 10, 0), 501);
    expect(window.decide('a', 10, 1_500)).toBe('slow');
    expect(window.decide('b', 10, 1_500)).toBe('admit');
    expect(window.decide('a', 10, 1_501)).toBe('admit');
  });

  it('keeps a key aside for twice as long each time it is slow at once again, up to a bound', () => {
    const window = windowOf({ slowForMs: 1_000, slowForAtMostMs: 3_000 });
    let now = 0;
    for (const forMs of [1_000, 2_000, 3_000, 3_000]) {
      window.end(window.begin('a', 10, now), now + 501);
      now += 501 + forMs;
      expect(window.decide('a', 10, now - 1)).toBe('slow');
      expect(window.decide('a', 10, now)).toBe('admit');
    }
    // It was quick for as long as it had been slow, so the penalty starts from the beginning.
    now += 3_000;
    window.end(window.begin('a', 10, now), now + 501);
    expect(window.decide('a', 10, now + 1_501)).toBe('admit');
  });

  it('counts pieces that were slow together as one time', () => {
    const window = windowOf({ slowForMs: 1_000 });
    const pieces = Array.from({ length: 10 }, () => window.begin('a', 10, 0));
    pieces.forEach((piece, at) => {
      window.end(piece, 501 + at);
    });
    expect(window.decide('a', 10, 1_501)).toBe('admit');
  });

  it('accepts one piece of any size when nothing of its key is under way', () => {
    const window = windowOf();
    expect(window.decide('a', 5_000, 0)).toBe('admit');
    window.end(window.begin('a', 5_000, 0), 0);
    expect(window.decide('a', 5_000, 0)).toBe('admit');
  });

  it('ends a piece of work once', () => {
    const window = windowOf();
    const first = window.begin('a', 500, 0);
    window.begin('a', 900, 0);
    window.end(first, 0);
    window.end(first, 0);
    expect(window.decide('a', 100, 0)).toBe('admit');
    expect(window.decide('a', 101, 0)).toBe('wait');
  });

  it('forgets keys that are no longer slow, also those that never return', () => {
    const window = windowOf({ slowForMs: 1_000 });
    for (let key = 0; key < 100; key++) window.end(window.begin(`${key}`, 10, 0), 501);
    expect(window.remembered).toBe(100);
    window.end(window.begin('late', 10, 2_001), 2_502);
    expect(window.remembered).toBe(1);
  });

  describe('with a queue pressure', () => {
    const pressureOf = ({ waitMs = 0, isSlow = false } = {}): QueuePressure => ({
      waitMs: () => waitMs,
      isSlow: () => isSlow,
    });

    it('lets a key wait that work would wait for, unless nothing of it would wake it', () => {
      expect(windowOf().decide('a', 10, 0, pressureOf({ waitMs: 9_000 }))).toBe('admit');
      const window = windowOf();
      window.begin('a', 10, 0);
      expect(window.decide('a', 10, 0, pressureOf({ waitMs: 250 }))).toBe('admit');
      expect(window.decide('a', 10, 0, pressureOf({ waitMs: 251 }))).toBe('wait');
    });

    it('called a key slow for time of its work in the window: it is slow by its queue alone', () => {
      const window = windowOf();
      const work = window.begin('a', 10, 0);
      expect(window.decide('a', 10, 60_000, pressureOf())).toBe('admit');
      window.end(work, 60_000, pressureOf());
      expect(window.remembered).toBe(0);
      expect(window.decide('a', 10, 60_000, pressureOf())).toBe('admit');
      expect(window.decide('a', 10, 60_000, pressureOf({ isSlow: true }))).toBe('slow');
    });

    it('sends a key to the slow queue that takes up the room of others, and not one that is alone', () => {
      const window = windowOf({ share: 1 / 20 });
      const work = window.begin('a', 10, 0);
      expect(window.decide('a', 10, 0, pressureOf(), 7_900)).toBe('admit');
      for (let key = 0; key < 11; key++) window.decide(`b${key}`, 10, 0);
      expect(window.decide('a', 10, 0, pressureOf(), 1_900)).toBe('admit');
      expect(window.decide('a', 10, 0, pressureOf(), 2_000)).toBe('slow');
      // No other keys were seen for a while.
      window.end(work, 0);
      window.begin('a', 10, 20_000);
      expect(window.decide('a', 10, 20_000, pressureOf(), 2_000)).toBe('admit');
    });
  });

  it('has room again when everything has ended, whatever the order', () => {
    const work = fc.array(fc.tuple(fc.constantFrom('a', 'b', 'c'), fc.nat(500), fc.nat()));
    fc.assert(
      fc.property(work, (pieces) => {
        const window = windowOf();
        const all: [WindowWork, number][] = pieces.map(([key, bytes, order], at) => [
          window.begin(key, bytes, at),
          order,
        ]);
        for (const [one] of all.sort((left, right) => left[1] - right[1])) window.end(one, 500);
        for (const key of ['a', 'b', 'c']) expect(window.decide(key, 8_000, 1e6)).toBe('admit');
      }),
    );
  });
});
