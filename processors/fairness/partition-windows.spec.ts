import type { LogEntry } from '@tributary/core';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { PartitionWindows } from './partition-windows.ts';

/** Windows of 8,000 bytes; a key alone may hold them all, one of many 1,000. */
function setUp() {
  const time = { now: 0 };
  const windows = new PartitionWindows(() => time.now, { windowBytes: 8_000, share: 1 / 8 });
  const entry: LogEntry = {
    position: { topic: 't', partition: 0, offset: 0, index: 0 },
    timestamp: 0,
    key: '',
    headers: {},
    value: '',
  };
  const enter = (key: string, bytes = 1) => windows.tryEnter(entry, key, bytes);
  return { time, enter, accepts: (partition = 0) => windows.canAccept('t', partition) };
}

describe('the window of a partition', () => {
  it('has no room for a key that takes up that of others, and has all of it for one that is alone', () => {
    const { time, enter } = setUp();
    for (let n = 0; n < 24; n++) expect(enter('a', 1_000)).toBeDefined();
    expect(enter('a')).toBeUndefined();
    const others = Array.from({ length: 23 }, (_, n) => `other-${n}`);
    for (const other of others) expect(enter(other, 1_000)).toBeDefined();
    for (const other of others) expect(enter(other)).toBeUndefined();
    // Others count until they were away for a while.
    time.now = 10_000;
    expect(enter('other-0', 20_000)).toBeDefined();
  });

  it('has room for one piece of any size of a key', () => {
    const { enter } = setUp();
    const end = enter('a', 999_999);
    expect(enter('a')).toBeUndefined();
    end?.();
    expect(enter('a')).toBeDefined();
  });

  it('has room again when everything has ended, whatever the order', () => {
    const pieces = fc.array(fc.tuple(fc.constantFrom('a', 'b', 'c'), fc.integer({ min: 1, max: 9_000 })));
    fc.assert(
      fc.property(pieces, fc.infiniteStream(fc.nat()), (all, picks) => {
        const { enter } = setUp();
        const ends = all.map(([key, bytes]) => enter(key, bytes)).filter((end) => end !== undefined);
        while (ends.length > 0) ends.splice(Number(picks.next().value) % ends.length, 1)[0]?.();
        for (const key of ['a', 'b', 'c']) expect(enter(key, 999_999)).toBeDefined();
      }),
    );
  });
});

describe('of one key that is alone', () => {
  it('two shares of the window are accepted, and more once half a share is done', () => {
    const { enter, accepts } = setUp();
    expect(accepts()).toBe(true);
    const ends = [enter('a', 1_000), enter('a', 501)];
    expect(accepts()).toBe(true);
    ends.push(enter('a', 500));
    expect(accepts()).toBe(false);
    expect(accepts(1)).toBe(true);
    ends[2]?.();
    expect(accepts()).toBe(false);
    ends[1]?.();
    expect(accepts()).toBe(true);
  });

  it('more is accepted once its work takes long, and whenever others come', () => {
    const { time, enter, accepts } = setUp();
    const end = enter('a', 2_000);
    expect(accepts()).toBe(false);
    time.now = 100;
    expect(accepts()).toBe(true);
    end?.();
    expect(accepts()).toBe(true);
    enter('a', 2_000);
    expect(accepts()).toBe(false);
    enter('b');
    expect(accepts()).toBe(true);
  });
});
