import type { DatabaseSync } from 'node:sqlite';
import { isBusy, openDatabase, translateSqliteError } from '../../sqlite/database.ts';

/**
 * The right to publish, which one of all who have the profiles open has at a time: a write transaction of a file of its
 * own that is begun and never ended. Who has it loses it by dying, at once and whatever the cause.
 */
export class PublishingRight {
  readonly #database: DatabaseSync;

  constructor(file: string) {
    this.#database = openDatabase(file, { busyTimeoutMs: 0 });
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

  close(): void {
    this.#database.close();
  }
}
