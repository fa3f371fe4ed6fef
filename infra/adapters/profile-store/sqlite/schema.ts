import type { DatabaseSync } from 'node:sqlite';
import { inTransaction } from '../../sqlite/database.ts';

/** Raised whenever `SCHEMA` changes; kept in the file's `user_version`. */
const SCHEMA_VERSION = 1;

/**
 * `profiles` holds the JSON of a live profile, or of the `Tombstone` of one that was deleted. `claims` and `ucids` lead
 * to it: an identity by its digest, every ucid that was ever answered by its bytes. `outbox` holds what is still to be
 * published, in the order of commits.
 */
const SCHEMA = `
  CREATE TABLE profiles (
    profile INTEGER PRIMARY KEY,
    deleted_at INTEGER,
    body TEXT NOT NULL
  );
  CREATE INDEX profiles_deleted ON profiles (deleted_at) WHERE deleted_at IS NOT NULL;
  CREATE TABLE claims (
    claim BLOB PRIMARY KEY,
    profile INTEGER NOT NULL
  ) WITHOUT ROWID;
  CREATE TABLE ucids (
    ucid BLOB PRIMARY KEY,
    profile INTEGER NOT NULL
  ) WITHOUT ROWID;
  CREATE TABLE outbox (
    change INTEGER PRIMARY KEY AUTOINCREMENT,
    body TEXT NOT NULL
  );
  PRAGMA user_version = ${SCHEMA_VERSION};
`;

/**
 * Makes the tables in an empty file; only then it waits for other writers. Throws when the file holds those of another
 * version.
 */
export function prepareSchema(database: DatabaseSync, file: string): void {
  if (isEmpty(database))
    inTransaction(database, () => {
      if (isEmpty(database)) database.exec(SCHEMA);
    });
  const version = Number(database.prepare('PRAGMA user_version').get()?.user_version);
  if (version !== SCHEMA_VERSION)
    throw new Error(
      `${file} has schema version ${version}, this program needs ${SCHEMA_VERSION}: run the program that made it`,
    );
}

function isEmpty(database: DatabaseSync): boolean {
  return database.prepare('SELECT 1 FROM sqlite_schema LIMIT 1').get() === undefined;
}
