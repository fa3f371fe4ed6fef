import type { DatabaseSync } from 'node:sqlite';
import { inTransaction } from '../../sqlite/database.ts';

/** Raised whenever `SCHEMA` changes; kept in the file's `user_version`. */
const SCHEMA_VERSION = 2;

/**
 * `written_at` is when an entry was last put, by which it ages. `listed` holds one row for each listing an entry stands
 * in, in the order of lists.
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

/** Makes the tables in an empty file. Throws when the file holds those of another version. */
export function prepareSchema(database: DatabaseSync, file: string): void {
  inTransaction(database, () => {
    if (isEmpty(database)) database.exec(SCHEMA);
    const version = Number(database.prepare('PRAGMA user_version').get()?.user_version);
    if (version !== SCHEMA_VERSION)
      throw new Error(
        `${file} has schema version ${version}, this program needs ${SCHEMA_VERSION}: run the program that made it, or move the file away to start an empty history`,
      );
  });
}

function isEmpty(database: DatabaseSync): boolean {
  return database.prepare('SELECT 1 FROM sqlite_schema LIMIT 1').get() === undefined;
}
