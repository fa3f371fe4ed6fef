import { TurnQueue } from '@tributary/core';
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
  readonly #waiting = new TurnQueue<Waiter>();
  #isBusy = false;

  /** Rejects with `Stopped`, without starting `work`, where `isWanted` is false when the work would start. */
  async take<T>(workspaceId: string, isWanted: () => boolean, work: () => Promise<T>): Promise<T> {
    if (this.#isBusy)
      await new Promise<void>((begin, refuse) => this.#waiting.add(workspaceId, { isWanted, begin, refuse }));
    this.#isBusy = true;
    try {
      return await work();
    } finally {
      this.#isBusy = false;
      this.#beginNext();
    }
  }

  #beginNext(): void {
    for (let next = this.#waiting.take()?.item; next !== undefined; next = this.#waiting.take()?.item) {
      if (next.isWanted()) {
        this.#isBusy = true;
        next.begin();
        return;
      }
      next.refuse(new Stopped('stopped'));
    }
  }
}

/** Key derivations from passwords (SCRAM), up to a few hundred milliseconds each. One for the process, as the pool is. */
export const keyDerivations = new ThreadPoolQueue();

/** Compression of large objects. */
export const compressions = new ThreadPoolQueue();
