import type { DatabaseSync, StatementSync } from 'node:sqlite';

/**
 * The log of writes of a database file (WAL), in pages: what was committed and is not in the file itself yet. SQLite
 * begins it anew with the first write after all of it was carried over, unless somebody reads in it at that moment.
 */
export class WriteLog {
  readonly #look: StatementSync;
  readonly #carry: StatementSync;

  constructor(database: DatabaseSync) {
    this.#look = database.prepare('PRAGMA wal_checkpoint(NOOP)');
    this.#carry = database.prepare('PRAGMA wal_checkpoint(PASSIVE)');
  }

  /** How long it is, and how much of that is still to be carried over. */
  size(): { readonly pages: number; readonly left: number } {
    const { log, checkpointed } = counts(this.#look);
    return { pages: log, left: log - checkpointed };
  }

  /**
   * Carries over what was committed until now, beside readers and writers; how many pages that makes since the log was
   * begun. Undefined when another one is at it.
   */
  carryOver(): number | undefined {
    const { busy, checkpointed } = counts(this.#carry);
    return busy === 0 ? checkpointed : undefined;
  }
}

function counts(statement: StatementSync) {
  const { busy, log, checkpointed } = statement.get() ?? {};
  return { busy: Number(busy), log: Number(log), checkpointed: Number(checkpointed) };
}
