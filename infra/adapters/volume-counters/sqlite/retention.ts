import type { DatabaseSync, StatementSync } from 'node:sqlite';

/** Rows one call drops of each table, so that no batch waits long for it. */
const ROWS_A_CALL = 500;

const KEYS = {
  counts: 'day, workspace_id, hour, environment, event_type, event_name, topic, partition',
  names: 'day, workspace_id, topic, partition, name',
  name_totals: 'day, workspace_id, topic, partition',
  runs: 'day, workspace_id, transformation_id, hour, measure',
} as const;

/** Drops the days before a day, a little with every call. Call it inside a transaction. */
export class Retention {
  readonly #oldest: StatementSync;
  readonly #drops: readonly StatementSync[];

  constructor(database: DatabaseSync) {
    this.#oldest = database.prepare(
      `SELECT min(day) AS day FROM (SELECT min(day) AS day FROM counts UNION ALL SELECT min(day) FROM names
       UNION ALL SELECT min(day) FROM runs)`,
    );
    this.#drops = Object.entries(KEYS).map(([table, key]) =>
      database.prepare(
        `DELETE FROM ${table} WHERE (${key}) IN (SELECT ${key} FROM ${table} WHERE day < ? LIMIT ${ROWS_A_CALL})`,
      ),
    );
  }

  dropBefore(day: number): void {
    const oldest = this.#oldest.get()?.day;
    if (typeof oldest !== 'number' || oldest >= day) return;
    for (const drop of this.#drops) drop.run(day);
  }
}
