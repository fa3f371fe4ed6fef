import type { DatabaseSync } from 'node:sqlite';
import { inTransaction } from '../../sqlite/database.ts';

/** Raised whenever `SCHEMA` changes; kept in the file's `user_version`. */
const SCHEMA_VERSION = 3;

/**
 * `written_at` is when an entry was last put, by which it ages. `listed` holds one row for each listing an entry stands
 * in, in the order of lists. `detail` stands last, so that who does not ask for it does not read its pages.
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
  PRAGMA user_version = ${SCHEMA_VERSION};
`;

/** What makes tables of an earlier version those of the one after it. */
const UPGRADES = new Map([[2, 'ALTER TABLE entries ADD COLUMN detail TEXT; PRAGMA user_version = 3;']]);

/** Makes the tables in an empty file, or of those of an earlier version. Throws when it holds others. */
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

function versionOf(database: DatabaseSync): number {
  return Number(database.prepare('PRAGMA user_version').get()?.user_version);
}

function isEmpty(database: DatabaseSync): boolean {
  return database.prepare('SELECT 1 FROM sqlite_schema LIMIT 1').get() === undefined;
}
