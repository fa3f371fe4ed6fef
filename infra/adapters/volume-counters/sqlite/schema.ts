/**
 * Days (UTC, counted from the epoch) lead the keys, so that old ones are dropped from the front and a read looks at
 * one short range per day.
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
