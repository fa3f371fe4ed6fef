import type { DatabaseSync, StatementSync } from 'node:sqlite';

/**
 * Keys begin with the day (UTC, counted from the epoch), so that old days are dropped from the front, and a query reads one
 * short range per day.
 */
export const SCHEMA = `
  CREATE TABLE IF NOT EXISTS applied (
    topic TEXT NOT NULL,
    partition INTEGER NOT NULL,
    offset INTEGER NOT NULL,
    PRIMARY KEY (topic, partition)
  ) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS counts (
    day INTEGER NOT NULL,
    workspace_id TEXT NOT NULL,
    hour INTEGER NOT NULL,
    environment TEXT NOT NULL,
    event_type TEXT NOT NULL,
    event_name TEXT NOT NULL,
    topic TEXT NOT NULL,
    partition INTEGER NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (day, workspace_id, hour, environment, event_type, event_name, topic, partition)
  ) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS names (
    day INTEGER NOT NULL,
    workspace_id TEXT NOT NULL,
    topic TEXT NOT NULL,
    partition INTEGER NOT NULL,
    name TEXT NOT NULL,
    PRIMARY KEY (day, workspace_id, topic, partition, name)
  ) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS name_totals (
    day INTEGER NOT NULL,
    workspace_id TEXT NOT NULL,
    topic TEXT NOT NULL,
    partition INTEGER NOT NULL,
    total INTEGER NOT NULL,
    PRIMARY KEY (day, workspace_id, topic, partition)
  ) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS runs (
    day INTEGER NOT NULL,
    workspace_id TEXT NOT NULL,
    transformation_id TEXT NOT NULL,
    hour INTEGER NOT NULL,
    measure TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (day, workspace_id, transformation_id, hour, measure)
  ) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS key_uses (
    key_id TEXT PRIMARY KEY,
    at INTEGER NOT NULL
  ) WITHOUT ROWID;
`;

const DAY_MS = 24 * 60 * 60 * 1000;

export function dayOf(ms: number): number {
  return Math.floor(ms / DAY_MS);
}

/** Rows that one call drops from each table, so that it delays a batch only briefly. */
const ROWS_PER_CALL = 500;

const KEYS = {
  counts: 'day, workspace_id, hour, environment, event_type, event_name, topic, partition',
  names: 'day, workspace_id, topic, partition, name',
  name_totals: 'day, workspace_id, topic, partition',
  runs: 'day, workspace_id, transformation_id, hour, measure',
} as const;

/** Drops old days, a few rows with every call. To be called inside a transaction. */
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
        `DELETE FROM ${table} WHERE (${key}) IN (SELECT ${key} FROM ${table} WHERE day < ? LIMIT ${ROWS_PER_CALL})`,
      ),
    );
  }

  dropBefore(day: number): void {
    const oldest = this.#oldest.get()?.day;
    if (typeof oldest !== 'number' || oldest >= day) return;
    for (const drop of this.#drops) drop.run(day);
  }
}
