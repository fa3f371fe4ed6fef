import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { type CountedPartition, MAX_NAMES, OTHER_NAME } from '@tributary/core';

/**
 * Which event names a partition counts under their own name. The first `MAX_NAMES` of a workspace and day do; which
 * ones depends on what was counted before and on nothing else, so a repeated batch would count the same.
 */
export class Names {
  readonly #known: StatementSync;
  readonly #add: StatementSync;
  readonly #take: StatementSync;

  constructor(database: DatabaseSync) {
    this.#known = database.prepare(
      'SELECT 1 FROM names WHERE day = ? AND workspace_id = ? AND topic = ? AND partition = ? AND name = ?',
    );
    this.#add = database.prepare(
      'INSERT INTO names (day, workspace_id, topic, partition, name) VALUES (?, ?, ?, ?, ?)',
    );
    this.#take = database.prepare(
      `INSERT INTO name_totals (day, workspace_id, topic, partition, total) VALUES (?, ?, ?, ?, 1)
       ON CONFLICT DO UPDATE SET total = total + 1 WHERE total < ${MAX_NAMES}`,
    );
  }

  /** The name to count under. Call it inside the transaction that counts. */
  counted({ topic, partition }: CountedPartition, day: number, workspaceId: string, name: string): string {
    if (name === OTHER_NAME) return OTHER_NAME;
    const key = [day, workspaceId, topic, partition] as const;
    if (this.#known.get(...key, name) !== undefined) return name;
    if (this.#take.run(...key).changes === 0) return OTHER_NAME;
    this.#add.run(...key, name);
    return name;
  }
}
