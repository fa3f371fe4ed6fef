import type { DatabaseSync } from 'node:sqlite';
import { isBusy, openDatabase, translateSqliteError } from '../../sqlite/database.ts';

/**
 * The right to publish, which one of all who have the profiles open has at a time: a write transaction of a file of its
 * own. Who has it loses it by dying, at once and whatever the cause, or gives it back when it cannot publish.
 */
export class PublishingRight {
  readonly #database: DatabaseSync;

  /** Opening waits for others who open or close the file for so long, ms; taking the right waits for nobody. */
  constructor(file: string, busyTimeoutMs: number) {
    this.#database = openDatabase(file, { busyTimeoutMs });
    this.#database.exec('PRAGMA busy_timeout = 0');
  }

  /** True when it is ours, now or already. */
  take(): boolean {
    if (this.#database.isTransaction) return true;
    try {
      this.#database.exec('BEGIN IMMEDIATE');
      return true;
    } catch (error) {
      if (isBusy(error)) return false;
      throw translateSqliteError(error);
    }
  }

  /** Lets another one have it. */
  release(): void {
    if (this.#database.isTransaction) this.#database.exec('ROLLBACK');
  }

  close(): void {
    this.#database.close();
  }
}
