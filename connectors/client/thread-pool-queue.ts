import { Stopped } from '../failures.ts';

interface Waiter {
  isWanted(): boolean;
  begin(): void;
  refuse(reason: Stopped): void;
}

/**
 * Runs costly work of libuv's thread pool one piece at a time, so that work chosen by settings and by foreign servers
 * leaves the other threads to the rest of the process (verifying tokens, inflating bodies). Workspaces alternate: a
 * workspace with many pieces delays another one by one piece.
 */
export class ThreadPoolQueue {
  readonly #waiting = new Map<string, Waiter[]>();
  #isBusy = false;

  /** Rejects with `Stopped`, without starting `work`, where `isWanted` is false when the work would start. */
  async take<T>(workspaceId: string, isWanted: () => boolean, work: () => Promise<T>): Promise<T> {
    if (this.#isBusy) await this.#turn(workspaceId, isWanted);
    this.#isBusy = true;
    try {
      return await work();
    } finally {
      this.#isBusy = false;
      this.#beginNext();
    }
  }

  #turn(workspaceId: string, isWanted: () => boolean): Promise<void> {
    return new Promise((begin, refuse) => {
      const own = this.#waiting.get(workspaceId) ?? [];
      own.push({ isWanted, begin, refuse });
      this.#waiting.set(workspaceId, own);
    });
  }

  #beginNext(): void {
    for (const [workspaceId, own] of this.#waiting) {
      // Reinserted behind all other workspaces.
      this.#waiting.delete(workspaceId);
      const next = own.shift();
      if (own.length > 0) this.#waiting.set(workspaceId, own);
      if (next?.isWanted() === true) {
        this.#isBusy = true;
        next.begin();
        return;
      }
      next?.refuse(new Stopped('stopped'));
    }
  }
}

/** Key derivations from passwords (SCRAM), up to a few hundred milliseconds each. One for the process, as the pool is. */
export const keyDerivations = new ThreadPoolQueue();

/** Compression of large objects. */
export const compressions = new ThreadPoolQueue();
