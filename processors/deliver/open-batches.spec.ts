import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { delivery, OK, setUp, taskOf, turn } from './deliveries.fixture.ts';

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }));
afterEach(() => void vi.useRealTimers());

function setUpHolding(holdMs: number, perSecond?: number) {
  const set = setUp(() => OK, { size: () => 100, holdMs, ...(perSecond === undefined ? {} : { perSecond }) });
  const pass = async (ms: number) => {
    for (let passed = 0; passed < ms; passed += 25) {
      set.time.elapsed += 25;
      set.time.now += 25;
      await vi.advanceTimersByTimeAsync(25);
      await turn();
    }
  };
  return { ...set, pass };
}

it('a batch held open for longer than the shortest retry step was deferred for ever: it is sent then', async () => {
  const { calls, run, pass } = setUpHolding(60_000);
  const first = run(delivery('1'));
  await pass(4_000);
  const second = run(delivery('2'));
  await pass(5_900);
  expect(calls).toHaveLength(0);
  await pass(200);
  const settled = await Promise.all([first, second]);
  expect(settled.map(({ outcome }) => outcome.kind)).toEqual(['delivered', 'delivered']);
  expect(calls.map(({ ids }) => ids)).toEqual([['1', '2']]);
});

it('a delivery in an open batch went to the slow queue and was sent all the same, twice with another process', async () => {
  const { calls, sendQuickly, run, pass } = setUpHolding(5_000);
  const other = setUpHolding(5_000);
  const soon = ['1', '2'].map((id) => sendQuickly(taskOf(delivery(id))));
  await pass(600);
  expect((await Promise.all(soon)).map(({ outcome }) => outcome.kind)).toEqual(['slow', 'slow']);
  const [here, there] = [run(delivery('1')), other.run(delivery('2'))];
  await pass(5_100);
  await other.pass(5_100);
  const settled = await Promise.all([here, there]);
  expect(settled.map(({ outcome }) => outcome.kind)).toEqual(['delivered', 'delivered']);
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
