import { type EventLoopUtilization, performance } from 'node:perf_hooks';
import type { Clock } from '@tributary/core';
import Denque from 'denque';

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

/** Interval of checks, ms: a timeout may fire this much late. */
const CHECK_MS = 25;

/** A timeout that was started. */
export class Timeout {
  readonly startedAt: number;
  #onTimeout: (() => void) | undefined;

  constructor(startedAt: number, onTimeout: () => void) {
    this.startedAt = startedAt;
    this.#onTimeout = onTimeout;
  }

  /** Whether it fired or was cancelled. */
  get isOver(): boolean {
    return this.#onTimeout === undefined;
  }

  cancel(): void {
    this.#onTimeout = undefined;
  }

  fire(): void {
    const onTimeout = this.#onTimeout;
    this.#onTimeout = undefined;
    onTimeout?.();
  }
}

/** Timeouts by a monotonic clock, with one timer for all of them: thousands of deliveries wait at a time. */
export class TimeoutWheel {
  readonly #elapsed: Clock;
  /** Queues by duration, ms, each in the order of starts. */
  readonly #lines = new Map<number, Denque<Timeout>>();
  #timer: NodeJS.Timeout | undefined;

  constructor(elapsed: Clock) {
    this.#elapsed = elapsed;
  }

  /** Calls `onTimeout` once `ms` have passed, unless the timeout is cancelled before. */
  start(ms: number, onTimeout: () => void): Timeout {
    const timeout = new Timeout(this.#elapsed(), onTimeout);
    const line = this.#lines.get(ms) ?? new Denque<Timeout>();
    this.#lines.set(ms, line);
    line.push(timeout);
    this.#checkLater();
    return timeout;
  }

  #checkLater(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#check(this.#elapsed());
      if (this.#lines.size > 0) this.#checkLater();
    }, CHECK_MS).unref();
  }

  #check(now: number): void {
    for (const [ms, line] of this.#lines) {
      for (let first = line.peekFront(); first !== undefined; first = line.peekFront()) {
        if (!first.isOver && now - first.startedAt < ms) break;
        line.shift();
        first.fire();
      }
      if (line.length === 0) this.#lines.delete(ms);
    }
  }
}
