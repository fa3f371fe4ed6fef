import { Stopped } from '../failures.ts';

interface Waiter {
  isWanted(): boolean;
  begin(): void;
  refuse(reason: Stopped): void;
}

/**
 * Lets work that occupies a thread of the process's pool be done one piece at a time, so that what settings and their
 * servers ask for leaves the other threads to the rest of the process (to verify a token, to inflate a body). Workspaces
 * take turns: the pieces of one delay those of another by one piece each.
 */
export class ThreadTurns {
  readonly #waiting = new Map<string, Waiter[]>();
  #isBusy = false;

  /** Rejects with `Stopped` where `isWanted` is false once the turn has come; `work` is then not begun. */
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
      // The workspace goes behind all others.
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

/** The derivation of keys from passwords, up to a few hundred milliseconds each. The pool is the process's, so this is. */
export const keyDerivations = new ThreadTurns();

/** The compression of large objects. */
export const compressions = new ThreadTurns();
