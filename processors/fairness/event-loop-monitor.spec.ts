import { expect, it } from 'vitest';
import { EventLoopMonitor } from './event-loop-monitor.ts';

function setUp() {
  const time = { now: 0, utilization: 0 };
  let asked = 0;
  const monitor = new EventLoopMonitor(
    () => time.now,
    () => {
      asked += 1;
      return { idle: 0, active: 0, utilization: time.utilization };
    },
  );
  return { time, monitor, asked: () => asked };
}

it('is saturated while the thread was hardly ever idle', () => {
  const { time, monitor } = setUp();
  expect(monitor.saturated).toBe(false);
  time.utilization = 0.95;
  expect(monitor.saturated).toBe(false);
  time.now += 200;
  expect(monitor.saturated).toBe(true);
  time.utilization = 0.5;
  expect(monitor.saturated).toBe(true);
  time.now += 200;
  expect(monitor.saturated).toBe(false);
});

it('is not looked at for every delivery', () => {
  const { monitor, asked } = setUp();
  const before = asked();
  for (let n = 0; n < 1_000; n++) void monitor.saturated;
  expect(asked()).toBe(before);
});
