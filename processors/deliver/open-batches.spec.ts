import { deliveryText, HEADER, type Headers, type OutputRecord, TOPIC } from '@tributary/core';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { PartitionWindows } from '../fairness/partition-windows.ts';
import { delivery, FRESH, OK, START, setUp, taskOf, timePasser } from './deliveries.fixture.ts';
import { deliver } from './stage.ts';

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }));
afterEach(() => void vi.useRealTimers());

function setUpHolding(holdMs: number, perSecond?: number) {
  const set = setUp(() => OK, {
    size: () => 100,
    holdMs,
    waitMs: 200_000,
    ...(perSecond === undefined ? {} : { perSecond }),
  });
  return { ...set, pass: timePasser(set.time) };
}

it('a batch held open for longer than the shortest retry step was deferred for ever: it is sent then', async () => {
  const { calls, run, pass } = setUpHolding(60_000);
  const first = run(delivery('1'));
  await pass(4_000);
  const second = run(delivery('2'));
  await pass(5_900);
  expect(calls).toHaveLength(0);
  await pass(200);
  const outcomes = await Promise.all([first, second]);
  expect(outcomes.map(({ kind }) => kind)).toEqual(['delivered', 'delivered']);
  expect(calls.map(({ ids }) => ids)).toEqual([['1', '2']]);
});

it('a delivery in an open batch went to the slow queue and was sent all the same, twice with another process', async () => {
  const { calls, sendQuickly, run, pass } = setUpHolding(5_000);
  const other = setUpHolding(5_000);
  const soon = ['1', '2'].map((id) => sendQuickly(taskOf(delivery(id))));
  await pass(600);
  expect((await Promise.all(soon)).map(({ kind }) => kind)).toEqual(['slow', 'slow']);
  const [here, there] = [run(delivery('1')), other.run(delivery('2'))];
  await pass(5_100);
  await other.pass(5_100);
  const outcomes = await Promise.all([here, there]);
  expect(outcomes.map(({ kind }) => kind)).toEqual(['delivered', 'delivered']);
  expect(calls.map(({ ids }) => ids)).toEqual([['1']]);
  expect(other.calls.map(({ ids }) => ids)).toEqual([['2']]);
});

it('a batch that became full left its timer behind, and the next delivery waited for it', async () => {
  const { calls, run, pass } = setUpHolding(10_000, 1);
  const full = Array.from({ length: 100 }, (_, n) => run(delivery(`a${n}`)));
  await pass(100);
  expect(calls).toHaveLength(1);
  await Promise.all(full);
  const first = run(delivery('first'));
  await pass(1_500);
  const rest = Array.from({ length: 199 }, (_, n) => run(delivery(`b${n}`)));
  await pass(2_500);
  await Promise.all([first, ...rest]);
  expect(calls).toHaveLength(3);
});

it('a destination that collects for minutes got a batch each ten seconds: deliveries wait for the end of the interval', async () => {
  const { calls, stage, time, pass } = setUpHolding(90_000);
  const windows = new PartitionWindows(() => time.elapsed, { windowBytes: 1_000_000 });
  const { handle } = deliver(stage, windows);
  const { signal } = new AbortController();
  const taken = (id: string, more: Headers = {}) => {
    const value = deliveryText(delivery(id));
    const position = { topic: TOPIC.deliveries, partition: 0, offset: 0, index: 0 };
    const entry = { key: 'k', value, headers: { ...FRESH, ...more }, timestamp: time.now, position };
    return new Promise<readonly OutputRecord[]>((done, failed) => {
      handle(entry, { signal, bytes: value.length, done, failed });
    });
  };
  // A wait in the log may end 2 % late.
  const end = (Math.floor(START / 90_000) + 1) * 90_000 + 1_800;
  time.now = end - 45_000;
  const few = ['1', '2', '3'].map((id) => taken(id));
  await pass(1_000);
  const waiting = (await Promise.all(few)).flat();
  const until = { [HEADER.scheduledAt]: String(end) };
  expect(waiting).toMatchObject(Array(3).fill({ topic: 'deliveries.retry.10s', headers: until }));
  // One that is back before the end waits on in the log.
  expect(await taken('1', waiting[0]?.headers)).toMatchObject([{ headers: until }]);
  expect(calls).toHaveLength(0);

  // A batch that is full does not wait.
  const many = Array.from({ length: 110 }, (_, n) => taken(`${n}`));
  await pass(1_000);
  expect(calls.map(({ ids }) => ids.length)).toEqual([100]);
  expect((await Promise.all(many)).flat()).toHaveLength(10);

  time.now = end;
  const late = waiting.map(({ headers }, n) => taken(`${n}`, headers));
  await pass(1_600);
  expect((await Promise.all(late)).flat()).toEqual([]);
  expect(calls.map(({ ids }) => ids.length)).toEqual([100, 3]);
});
