import type { Logger } from '../observability/logger.ts';

/** Starts as another user that fail before child processes run as this process does. */
const TRIES = 2;
/** Ends of a start that say nothing of permissions: it was too slow and killed, or the system had no room. */
const PASSING = /^SIG|EAGAIN|ENOMEM/;

export interface ChildUserOptions {
  /** The user, and the group of the same number; 0 is this process's own. */
  readonly uid: number;
  /** Whether this process is root's: only root may start processes as another user. */
  readonly isRoot: boolean;
  /** What runs as that user, for the log. */
  readonly children: string;
  readonly logger: Logger;
}

/**
 * The user that child processes with other people's code run as. Another user may not be able to read what they need (a
 * checkout below `/root`, a node binary of root's own). Then they run as this process does, and one line of the log says
 * so: the other limits hold all the same. Once a child process has come up as another user, it stays with that.
 */
export class ChildUser {
  readonly #options: ChildUserOptions;
  #uid: number | undefined;
  #hasWorked = false;
  #failed = 0;

  constructor(options: ChildUserOptions) {
    this.#options = options;
    this.#uid = options.uid !== 0 && options.isRoot ? options.uid : undefined;
  }

  /** What a process is started with. */
  get identity(): { readonly uid?: number; readonly gid?: number } {
    return this.#uid === undefined ? {} : { uid: this.#uid, gid: this.#uid };
  }

  worked(): void {
    this.#hasWorked = true;
  }

  /** A child process did not start. True when the next one runs as another user than this one did. */
  failed(detail: string): boolean {
    if (this.#uid === undefined || this.#hasWorked || PASSING.test(detail)) return false;
    this.#failed += 1;
    if (this.#failed < TRIES) return false;
    const { children, logger } = this.#options;
    logger.warn(
      { children, uid: this.#uid, detail },
      'child processes cannot run as another user: they run as this process does',
    );
    this.#uid = undefined;
    return true;
  }
}
