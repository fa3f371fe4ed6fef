import type { LogEntry } from '@tributary/core';
import { expect, it } from 'vitest';
import { TransformationTurns } from './slowness.ts';

function setUp() {
  const time = { now: 0 };
  const turns = new TransformationTurns(() => time.now, 100, 500);
  const entry: LogEntry = {
    position: { topic: 't', partition: 0, offset: 0, index: 0 },
    timestamp: 0,
    key: '',
    headers: {},
    value: '',
  };
  const enter = (id: string, bytes = 60) => turns.enter(entry, id, bytes);
  /** Work that takes so long, ms; whether it was let in. */
  const work = async (ms: number) => {
    const end = await enter('a');
    time.now += ms;
    end?.();
    return end !== undefined;
  };
  return { time, enter, work };
}

const pending = Symbol('pending');
const stateOf = <T>(promise: Promise<T>) => Promise.race([promise, Promise.resolve(pending)]);

it('a quick transformation waits for its own work, in order, and goes to no slow queue for being busy', async () => {
  const { enter } = setUp();
  const first = await enter('a');
  const [second, third] = [enter('a'), enter('a')];
  expect(await stateOf(second)).toBe(pending);
  expect(await stateOf(enter('b', 999))).toBeTypeOf('function');
  first?.();
  const next = await second;
  expect(next).toBeDefined();
  expect(await stateOf(third)).toBe(pending);
  next?.();
  expect(await third).toBeDefined();
});

it('entries behind work that turns out slow go to the slow queue at once', async () => {
  const { time, enter } = setUp();
  const first = await enter('a');
  const behind = [enter('a'), enter('a')];
  time.now = 501;
  first?.();
  expect(await Promise.all(behind)).toEqual([undefined, undefined]);
  expect(await enter('a')).toBeUndefined();
});

it('thousands that end as soon as they begin do so one after the other, in order, each once', async () => {
  const { enter } = setUp();
  const first = await enter('a', 100);
  const ended: number[] = [];
  const waiting = Array.from({ length: 20_000 }, async (_, n) => {
    const end = await enter('a', 100);
    ended.push(end === undefined ? -1 : n);
    end?.();
  });
  first?.();
  await Promise.all(waiting);
  expect(ended).toEqual(Array.from({ length: 20_000 }, (_, n) => n));
});

it('is slow for twice as long each time it is slow at once again, up to a bound, and then forgotten', async () => {
  const { time, work } = setUp();
  for (const forMs of [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]) {
    expect(await work(501)).toBe(true);
    time.now += forMs - 1;
    expect(await work(0)).toBe(false);
    time.now += 1;
  }
  time.now += 30_000;
  await work(501);
  time.now += 1_000;
  expect(await work(0)).toBe(true);
});

it('pieces that were slow together count as one time', async () => {
  const { time, enter, work } = setUp();
  const together = await Promise.all([enter('a', 10), enter('a', 10), enter('a', 10)]);
  time.now = 501;
  for (const end of together) end?.();
  time.now += 1_000;
  expect(await work(0)).toBe(true);
});
