import { getEventListeners } from 'node:events';
import { setImmediate } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { Stopped, TimedOut } from '../failures.ts';
import { Deadlines } from './deadlines.ts';

const TIMEOUT_MS = 1_000;
const outer = new AbortController().signal;
let deadlines: Deadlines;

describe('Deadlines', () => {
  beforeEach(() => {
    vi.useFakeTimers();
    deadlines = new Deadlines(TIMEOUT_MS, () => 0); // no thread is busy by this clock
  });
  afterEach(() => {
    expect(vi.getTimerCount()).toBe(0);
    expect(getEventListeners(outer, 'abort')).toHaveLength(0);
    vi.useRealTimers();
  });

  test('each call has a time of its own, though one timer and one listener are for all', () => {
    const first = deadlines.begin(outer);
    vi.advanceTimersByTime(300);
    const ended = deadlines.begin(outer);
    const second = deadlines.begin(outer);
    vi.advanceTimersByTime(400);
    const third = deadlines.begin(outer);
    expect([vi.getTimerCount(), getEventListeners(outer, 'abort').length]).toEqual([1, 1]);
    deadlines.end(ended);

    const over = () => [first, ended, second, third].map(({ aborted }) => aborted);
    vi.advanceTimersByTime(299);
    expect(over()).toEqual([false, false, false, false]);
    vi.advanceTimersByTime(1);
    expect(over()).toEqual([true, false, false, false]);
    vi.advanceTimersByTime(300);
    expect(over()).toEqual([true, false, true, false]);
    deadlines.end(first);
    vi.advanceTimersByTime(400);
    expect(over()).toEqual([true, false, true, true]);
    expect(third.reason).toBeInstanceOf(TimedOut);
    for (const deadline of [second, third]) deadlines.end(deadline);
  });

  test('one signal stops only the calls that wait for it', () => {
    const leaving = new AbortController();
    const [one, two, other] = [leaving.signal, leaving.signal, outer].map((signal) =>
      deadlines.begin(signal),
    );
    leaving.abort();
    expect([one?.reason, two?.reason]).toEqual([expect.any(Stopped), expect.any(Stopped)]);
    expect(other?.aborted).toBe(false);
    const late = deadlines.begin(leaving.signal);
    expect(late.reason).toBeInstanceOf(Stopped);
    for (const deadline of [one, two, other, late]) if (deadline !== undefined) deadlines.end(deadline);
  });

  test('calls each listener once, and none that was removed', () => {
    const deadline = deadlines.begin(outer);
    const [one, gone, two] = [vi.fn(), vi.fn(), vi.fn()];
    for (const told of [one, gone, two]) deadline.addEventListener('abort', told);
    deadline.removeEventListener('abort', gone);
    vi.advanceTimersByTime(TIMEOUT_MS);
    deadline.abort(new Stopped('stopped'));
    expect([one, gone, two].map((told) => told.mock.calls.length)).toEqual([1, 0, 1]);
    expect(() => deadline.throwIfAborted()).toThrow(TimedOut);
    deadlines.end(deadline);
  });

  test('it is a signal for calls that accept nothing else, whenever they ask', () => {
    const deadline = deadlines.begin(outer);
    const { signal } = deadline;
    expect(signal.aborted).toBe(false);
    vi.advanceTimersByTime(TIMEOUT_MS);
    expect([signal.aborted, signal.reason]).toEqual([true, deadline.reason]);
    expect(deadline.signal).toBe(signal);
    deadlines.end(deadline);

    const stopped = deadlines.begin(AbortSignal.abort());
    expect(stopped.signal.reason).toBeInstanceOf(Stopped);
    deadlines.end(stopped);
  });
});

describe('in a thread that is busy all the time', () => {
  /** Turns of the event loop without a pause, until the condition holds. */
  const busyUntil = async (isOver: () => boolean) => {
    while (!isOver()) {
      const end = performance.now() + 5;
      while (performance.now() < end);
      await setImmediate();
    }
  };

  test('calls timed out although their answers may have come: they get the time again', async () => {
    const calls = new Deadlines(100);
    const call = calls.begin(outer);
    const began = performance.now();
    await busyUntil(() => performance.now() - began > 250);
    expect(call.aborted).toBe(false);
    await expect.poll(() => call.reason).toBeInstanceOf(TimedOut);
    calls.end(call);
  });

  test('they end all the same, after four times the time', async () => {
    const calls = new Deadlines(50);
    const [first, second] = [calls.begin(outer), calls.begin(outer)];
    const began = performance.now();
    await busyUntil(() => first.aborted && second.aborted);
    expect(performance.now() - began).toBeGreaterThanOrEqual(200);
    expect([first.reason, second.reason]).toEqual([expect.any(TimedOut), expect.any(TimedOut)]);
    for (const call of [first, second]) calls.end(call);
  });
});
