import { Unavailable } from '@tributary/core';

interface Waiter {
  readonly position: number;
  resolve(): void;
  reject(error: Error): void;
}

/** Callers that wait for a position, each with a deadline of its own. */
export class Waiters {
  readonly #waiting = new Set<Waiter>();

  /** Resolves when `reached` is told of the position; `Unavailable` after `timeoutMs`, or at once with `failAll`. */
  until(position: number, timeoutMs: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const settle = (how: () => void) => {
        clearTimeout(timer);
        this.#waiting.delete(waiter);
        how();
      };
      const waiter: Waiter = {
        position,
        resolve: () => settle(resolve),
        reject: (error) => settle(() => reject(error)),
      };
      const timer = setTimeout(
        () =>
          waiter.reject(new Unavailable(`the catalog did not reach position ${position} in ${timeoutMs} ms`)),
        timeoutMs,
      );
      this.#waiting.add(waiter);
    });
  }

  reached(position: number): void {
    for (const waiter of this.#waiting) if (waiter.position <= position) waiter.resolve();
  }

  failAll(error: Error): void {
    for (const waiter of this.#waiting) waiter.reject(error);
  }
}
