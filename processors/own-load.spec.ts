import { expect, it } from 'vitest';
import { OwnLoad } from './own-load.ts';

function setUp() {
  const time = { now: 0, utilization: 0 };
  let asked = 0;
  const load = new OwnLoad(
    () => time.now,
    () => {
      asked += 1;
      return { idle: 0, active: 0, utilization: time.utilization };
    },
  );
  return { time, load, asked: () => asked };
}

it('is overloaded while the thread was hardly ever idle', () => {
  const { time, load } = setUp();
  expect(load.overloaded).toBe(false);
  time.utilization = 0.95;
  expect(load.overloaded).toBe(false);
  time.now += 200;
  expect(load.overloaded).toBe(true);
  time.utilization = 0.5;
  expect(load.overloaded).toBe(true);
  time.now += 200;
  expect(load.overloaded).toBe(false);
});

it('is not looked at for every delivery', () => {
  const { load, asked } = setUp();
  const before = asked();
  for (let n = 0; n < 1_000; n++) void load.overloaded;
  expect(asked()).toBe(before);
});
