import type { Clock } from '@tributary/core';
import Denque from 'denque';

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
