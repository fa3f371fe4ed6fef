import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { TimeoutWheel, waitClock } from './waits.ts';

beforeEach(() => void vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] }));
afterEach(() => void vi.useRealTimers());

it('counts idle time, a quarter of busy time, and little of a long turn, in which no response is read', () => {
  const loop = { idle: 0, active: 0, utilization: 0 };
  const clock = waitClock(() => ({ ...loop }));
  const from = clock();
  const after = (idle: number, active: number) => {
    loop.idle += idle;
    loop.active += active;
    vi.advanceTimersByTime(25);
    return clock() - from;
  };
  expect(after(25, 0)).toBe(25);
  expect(after(5, 20)).toBe(35);
  expect(after(0, 60_000)).toBe(41.25);
  vi.advanceTimersByTime(1_000);
  expect(vi.getTimerCount()).toBe(0);
  // Time in which nothing read it counts as well.
  loop.idle += 500;
  expect(clock() - from).toBe(541.25);
});

it('fires once after its time, in order, and not when it was cancelled', async () => {
  const wheel = new TimeoutWheel(() => performance.now());
  const fired: string[] = [];
  const cancelled = wheel.start(20, () => fired.push('cancelled'));
  await new Promise<void>((resolve) => {
    wheel.start(200, () => {
      fired.push('long');
      resolve();
    });
    wheel.start(20, () => fired.push('short'));
    cancelled.cancel();
  });
  expect(fired).toEqual(['short', 'long']);
});

it('takes a timeout that is started by another one, and delays none behind a cancelled one', async () => {
  const time = { now: 0 };
  const wheel = new TimeoutWheel(() => time.now);
  const fired: string[] = [];
  const first = wheel.start(100, () => fired.push('first'));
  time.now = 50;
  wheel.start(100, () => {
    fired.push('second');
    wheel.start(100, () => fired.push('again'));
  });
  const check = async (now: number) => {
    time.now = now;
    await new Promise((resolve) => setTimeout(resolve, 60));
    return fired;
  };
  first.cancel();
  expect(await check(149)).toEqual([]);
  expect(await check(150)).toEqual(['second']);
  expect(await check(249)).toEqual(['second']);
  expect(await check(250)).toEqual(['second', 'again']);
});
