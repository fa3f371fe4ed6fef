import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { ProfileChange } from '@tributary/core';
import { reading } from '../../sqlite/database.ts';

/** A change goes with others until they weigh so much, characters. */
const BATCH_CHARACTERS = 1024 * 1024;
const BATCH_CHANGES = 500;

export interface Unpublished {
  /** In the order of their commits. */
  readonly changes: readonly ProfileChange[];
  /** The number of the last of them. */
  readonly upTo: number;
}

/** The reading side of the outbox. */
export class Outbox {
  readonly #after: StatementSync;
  readonly #version: StatementSync;
  readonly #extent: StatementSync;

  constructor(database: DatabaseSync) {
    this.#after = database.prepare(
      'SELECT change, body FROM outbox WHERE change > ? ORDER BY change LIMIT ?',
    );
    this.#version = database.prepare('PRAGMA data_version');
    this.#extent = database.prepare('SELECT max(change) - min(change) + 1 AS extent FROM outbox');
  }

  /** The next changes behind the one with this number, at least one; undefined when there is none. */
  after(number: number): Unpublished | undefined {
    return reading(() => {
      const changes: ProfileChange[] = [];
      let [upTo, characters] = [number, 0];
      for (const { change, body } of this.#after.iterate(number, BATCH_CHANGES)) {
        const text = String(body);
        characters += text.length;
        if (changes.length > 0 && characters > BATCH_CHARACTERS) break;
        changes.push(JSON.parse(text) as ProfileChange);
        upTo = Number(change);
      }
      return changes.length === 0 ? undefined : { changes, upTo };
    });
  }

  /** Another number whenever anybody has committed. */
  version(): number {
    return reading(() => Number(this.#version.get()?.data_version));
  }

  /** How many changes wait. */
  waiting(): number {
    return reading(() => Number(this.#extent.get()?.extent ?? 0));
  }
}
