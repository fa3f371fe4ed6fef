import type { Logger } from '@tributary/core';

/** Starts as another user that fail before the workers run as this process does. */
const TRIES = 2;
/** Ends of a start that say nothing of permissions: it was too slow and killed, or the system had no room. */
const PASSING = /^SIG|EAGAIN|ENOMEM/;

/**
 * Whom the workers of a sandbox run as. Only root may start processes as somebody else; and somebody else may not be
 * able to read what a worker needs (a checkout below `/root`, a node binary of root's own). Then they run as this process
 * does, and one line of the log says so: isolates, limits and the empty environment are there all the same. Once a worker
 * has come up as another user it stays with that.
 */
export class WorkerUser {
  readonly #logger: Logger;
  #uid: number | undefined;
  #hasWorked = false;
  #failed = 0;

  /** `uid` is of the user and its group; 0, or not being root, is this process's own. */
  constructor(uid: number, logger: Logger) {
    this.#logger = logger;
    this.#uid = uid !== 0 && process.getuid?.() === 0 ? uid : undefined;
  }

  /** What a process is started with. */
  get identity(): { readonly uid?: number; readonly gid?: number } {
    return this.#uid === undefined ? {} : { uid: this.#uid, gid: this.#uid };
  }

  worked(): void {
    this.#hasWorked = true;
  }

  /** A worker did not start. True when the next one runs as somebody else than this one did. */
  failed(detail: string): boolean {
    if (this.#uid === undefined || this.#hasWorked || PASSING.test(detail)) return false;
    this.#failed += 1;
    if (this.#failed < TRIES) return false;
    this.#logger.warn(
      { uid: this.#uid, detail },
      'sandbox workers cannot run as another user: they run as this process does',
    );
    this.#uid = undefined;
    return true;
  }
}
