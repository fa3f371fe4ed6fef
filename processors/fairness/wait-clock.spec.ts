import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { waitClock } from './wait-clock.ts';

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
