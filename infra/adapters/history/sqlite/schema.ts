import type { DatabaseSync } from 'node:sqlite';
import { type HistoryEntry, type HistoryKind, type JsonObject, parseExact } from '@tributary/core';
import { inTransaction } from '../../sqlite/database.ts';
import type { Facets, ListedEntry } from './listings.ts';

/** Raised with each change of `SCHEMA`; stored in the file's `user_version`. */
const SCHEMA_VERSION = 4;

/** The group of each entry that has one, and of each group its values and the number of its entries. */
const GROUPS = `
  CREATE TABLE IF NOT EXISTS grouped (entry INTEGER PRIMARY KEY, id TEXT NOT NULL);
  CREATE TABLE IF NOT EXISTS groups (
    kind TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    id TEXT NOT NULL,
    "values" TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (kind, workspace_id, id)
  ) WITHOUT ROWID;
`;

/**
 * `written_at` is the time of the last put, from which the retention is counted. `listed` has one row for each listing
 * that an entry is in (`listings.ts`). `detail` is the last column, so that a list without details does not read its pages.
 */
const SCHEMA = `
  CREATE TABLE entries (
    entry INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    id TEXT NOT NULL,
    at INTEGER NOT NULL,
    written_at INTEGER NOT NULL,
    version INTEGER NOT NULL,
    facets TEXT NOT NULL,
    body TEXT NOT NULL,
    detail TEXT,
    UNIQUE (kind, workspace_id, id)
  );
  CREATE INDEX entries_by_age ON entries (written_at);
  CREATE TABLE listed (
    listing BLOB NOT NULL,
    at INTEGER NOT NULL,
    id TEXT NOT NULL,
    entry INTEGER NOT NULL,
    PRIMARY KEY (listing, at DESC, id DESC)
  ) WITHOUT ROWID;
  ${GROUPS}
  PRAGMA user_version = ${SCHEMA_VERSION};
`;

/** Statements that upgrade tables of a version to the next one. */
const UPGRADES = new Map([
  [2, 'ALTER TABLE entries ADD COLUMN detail TEXT; PRAGMA user_version = 3;'],
  [3, `${GROUPS} PRAGMA user_version = 4;`],
]);

/** Creates the tables in an empty file, or upgrades those of an earlier version. Throws for any other file. */
export function prepareSchema(database: DatabaseSync, file: string): void {
  inTransaction(database, () => {
    if (isEmpty(database)) database.exec(SCHEMA);
    let version = versionOf(database);
    for (let upgrade = UPGRADES.get(version); upgrade !== undefined; upgrade = UPGRADES.get(version)) {
      database.exec(upgrade);
      version = versionOf(database);
    }
    if (version !== SCHEMA_VERSION)
      throw new Error(
        `${file} has schema version ${version}, this program needs ${SCHEMA_VERSION}: run the program that made it, or move the file away to start an empty history`,
      );
  });
}

/** Whether the tables are of the present version, so that they can be read without an upgrade. */
export function isCurrent(database: DatabaseSync): boolean {
  return versionOf(database) === SCHEMA_VERSION;
}

function versionOf(database: DatabaseSync): number {
  return Number(database.prepare('PRAGMA user_version').get()?.user_version);
}

function isEmpty(database: DatabaseSync): boolean {
  return database.prepare('SELECT 1 FROM sqlite_schema LIMIT 1').get() === undefined;
}

/** The history entry of a row of `entries`. */
export function entryOf(row: Record<string, unknown>): HistoryEntry {
  return {
    ...listedOf(row),
    version: Number(row.version),
    body: parseExact(String(row.body)) as JsonObject,
    ...(typeof row.detail === 'string' ? { detail: parseExact(row.detail) as JsonObject } : {}),
  };
}

/** The fields of a row that lists are built from; does not parse version and body. */
export function listedOf(row: Record<string, unknown>): ListedEntry {
  return {
    kind: row.kind as HistoryKind,
    id: String(row.id),
    workspaceId: String(row.workspace_id),
    at: Number(row.at),
    facets: facetsOf(row),
  };
}

export function facetsOf(row: Record<string, unknown>): Facets {
  return JSON.parse(String(row.facets)) as Facets;
}
