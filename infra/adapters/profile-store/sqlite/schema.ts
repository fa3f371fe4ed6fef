import type { DatabaseSync } from 'node:sqlite';
import { inTransaction, reading } from '../../sqlite/database.ts';

/** Raised whenever `SCHEMA` changes; kept in the file's `user_version`. */
const SCHEMA_VERSION = 3;

/**
 * `profiles` holds the JSON of a live profile, or of the `Tombstone` of one that was deleted. `claims` and `ucids` lead
 * to it: an identity by its digest, every ucid that was ever answered by its bytes. A claim that was written anew after
 * the deletion of who had it says when that was. `outbox` holds what is still to be published, in the order of commits:
 * of a change all but the profile. A row of it is the JSON of a list, so a transaction of many changes writes few rows;
 * changes are numbered one by one, and `change` is the number of the last one in the list.
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
    profile INTEGER NOT NULL,
    deleted_at INTEGER
  ) WITHOUT ROWID;
  CREATE INDEX claims_deleted ON claims (deleted_at) WHERE deleted_at IS NOT NULL;
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

/** What leads from a version to the next one. In version 2 a row of the outbox was one change. */
const UPGRADES: Readonly<Record<number, string>> = {
  2: `UPDATE outbox SET body = '[' || body || ']'; PRAGMA user_version = 3;`,
};

/**
 * Makes the tables in an empty file, or of those of a version before; waits for no writer when they are there. Throws
 * when they are of a version that leads here no more, or of a later one.
 */
export function prepareSchema(database: DatabaseSync, file: string): void {
  if (versionOf(database) === SCHEMA_VERSION) return;
  inTransaction(database, () => {
    if (database.prepare('SELECT 1 FROM sqlite_schema LIMIT 1').get() === undefined) database.exec(SCHEMA);
    const upgrade = UPGRADES[versionOf(database)];
    if (upgrade !== undefined) database.exec(upgrade);
    const version = versionOf(database);
    if (version !== SCHEMA_VERSION)
      throw new Error(
        `${file} has schema version ${version}, this program needs ${SCHEMA_VERSION}: run the program that made it`,
      );
  });
}

function versionOf(database: DatabaseSync): number {
  return reading(() => Number(database.prepare('PRAGMA user_version').get()?.user_version));
}
