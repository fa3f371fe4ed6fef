import { Unavailable, type Verdict } from '@tributary/core';

interface Waiter {
  readonly position: number;
  resolve(): void;
  reject(error: Error): void;
}

/** Callers that wait until the fold reaches a position, each with a timeout. */
export class PositionWaiters {
  readonly #waiting = new Set<Waiter>();

  /** Resolves when `reached` is called with the position; `Unavailable` after `timeoutMs`. */
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

/**
 * The verdicts on folded facts, while there are proposals under way. The fold often reads a fact before its append has
 * returned the offset, so verdicts are kept from before the append until the last proposal has ended.
 */
export class Verdicts {
  #proposals = 0;
  readonly #byOffset = new Map<number, Verdict>();

  beginProposal(): void {
    this.#proposals++;
  }

  endProposal(): void {
    this.#proposals--;
    if (this.#proposals === 0) this.#byOffset.clear();
  }

  add(offset: number, verdict: Verdict): void {
    if (this.#proposals > 0) this.#byOffset.set(offset, verdict);
  }

  of(offset: number): Verdict | undefined {
    return this.#byOffset.get(offset);
  }
}

/** The result of `work`, or `Unavailable` after `timeoutMs`; a later result is ignored. */
export async function withTimeout<T>(work: Promise<T>, timeoutMs: number, what: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Unavailable(`${what} took more than ${timeoutMs} ms`)), timeoutMs);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
