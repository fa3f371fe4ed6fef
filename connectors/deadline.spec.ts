import { getEventListeners } from 'node:events';
import { expect, test } from 'vitest';
import { withDeadline } from './deadline.ts';
import { Stopped, TimedOut } from './errors.ts';

const untilAborted = (signal: AbortSignal) =>
  new Promise<never>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));

test('work in time gives its result and leaves nothing on the outer signal', async () => {
  const outer = new AbortController().signal;
  await expect(withDeadline(outer, 1_000, async () => 7)).resolves.toBe(7);
  expect(getEventListeners(outer, 'abort')).toHaveLength(0);
});

test('late work ends with TimedOut', async () => {
  await expect(withDeadline(new AbortController().signal, 5, untilAborted)).rejects.toThrow(TimedOut);
});

test('stopped work ends with Stopped, and does not begin when it was stopped before', async () => {
  const controller = new AbortController();
  const running = withDeadline(controller.signal, 10_000, untilAborted);
  controller.abort();
  await expect(running).rejects.toThrow(Stopped);
  let begun = false;
  const late = withDeadline(controller.signal, 10_000, async () => {
    begun = true;
  });
  await expect(late).rejects.toThrow(Stopped);
  expect(begun).toBe(false);
});
