import { type EventLoopUtilization, performance } from 'node:perf_hooks';
import type { Clock } from '@tributary/core';

/** Interval in which the clock advances, ms. */
const TICK_MS = 25;
/** The part of its busy time that a thread counts as a wait for others. */
const BUSY_SHARE = 1 / 4;

/**
 * A clock of the time that this thread waits for others: ms in which its event loop was idle, and a quarter of its busy time.
 * While the thread is busy a response may have arrived that is not read yet, so that time is not the destination's. It counts in
 * part, as a thread without idle time has to notice a request that hangs. A long turn of the event loop counts as one
 * tick, as no response is read in it.
 *
 * It ticks while it is read.
 */
export function waitClock(measure: () => EventLoopUtilization = performance.eventLoopUtilization): Clock {
  let last = measure();
  let waitedMs = 0;
  let isRead = false;
  let timer: NodeJS.Timeout | undefined;
  const tick = () => {
    const now = measure();
    const busyMs = Math.min(TICK_MS, now.active - last.active);
    waitedMs += now.idle - last.idle + busyMs * BUSY_SHARE;
    last = now;
  };
  return () => {
    isRead = true;
    if (timer === undefined) {
      tick();
      timer = setInterval(() => {
        tick();
        if (!isRead) timer = void clearInterval(timer);
        isRead = false;
      }, TICK_MS).unref();
    }
    return waitedMs;
  };
}
