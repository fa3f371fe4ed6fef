import type { DatabaseSync } from 'node:sqlite';
import { isBusy } from '../../sqlite/database.ts';

/** What is deleted within so long is erased together, ms. */
const DELAY_MS = 200;
const AGAIN_MS = 1_000;
/** Who reads one state of the file for longer keeps what is in it; the next deletion tries anew. */
const ATTEMPTS = 60;
/** How long the last attempt waits for others, ms. */
const PATIENCE_MS = 250;

/**
 * Rids the files of what was deleted. `secure_delete` overwrites it in the tables; what was written of it before is in the
 * write-ahead log until that is emptied, which waits for those who read in it.
 */
export class Erasure {
  readonly #database: DatabaseSync;
  #attempts = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(database: DatabaseSync) {
    this.#database = database;
  }

  /** Something was deleted: it is erased soon, beside other work. */
  owe(): void {
    this.#attempts = ATTEMPTS;
    this.#schedule(DELAY_MS);
  }

  /** The last chance of this process. Blocks for a moment when others are at it. */
  atLast(): void {
    clearTimeout(this.#timer);
    this.#database.exec(`PRAGMA busy_timeout = ${PATIENCE_MS}`);
    this.#empty();
  }

  #schedule(ms: number): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#attempts -= 1;
      if (!this.#empty() && this.#attempts > 0) this.#schedule(AGAIN_MS);
    }, ms).unref();
  }

  /** True when nothing is left in the log of writes. */
  #empty(): boolean {
    try {
      return this.#database.prepare('PRAGMA wal_checkpoint(TRUNCATE)').get()?.busy === 0;
    } catch (error) {
      if (isBusy(error)) return false;
      throw error;
    }
  }
}
