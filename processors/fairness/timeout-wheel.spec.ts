import { expect, it } from 'vitest';
import { TimeoutWheel } from './timeout-wheel.ts';

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
