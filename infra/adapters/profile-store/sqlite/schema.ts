import { hash } from 'node:crypto';
import { type Identity, identityHash, identityKey, type Profile, type ProfileScope } from '@tributary/core';
import type { Schema } from '../../sqlite/database.ts';

/**
 * - `profiles`: the JSON of a live profile, or of the `Tombstone` of a deleted one.
 * - `claims`, `ucids`: the profile of an identity, by its digest, and of every ucid ever returned, by its bytes. A identity
 *   claim written again after a deletion keeps the time of that deletion.
 * - `outbox`: unpublished changes in the order of their commits, without the profiles. A row is the JSON of a list, so that
 *   a transaction of many changes writes few rows. Changes are numbered one by one; `change` is the number of the last one
 *   of the row.
 */
const TABLES = `
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
  PRAGMA user_version = 3;
`;

/** The version is raised whenever the tables change. */
export const SCHEMA: Schema = {
  version: 3,
  tables: TABLES,
  advice: 'run the program that made it',
};

/**
 * The identity claim key of an identity: 16 bytes of a hash. Organization and region contain no NUL, so distinct identities
 * have distinct hash inputs.
 */
export function identityDigest({ org, region }: ProfileScope, identity: Identity): Buffer {
  return hash('sha256', `${org}\0${region}\0${identityKey(identity)}`, 'buffer').subarray(0, 16);
}

/** The 16 bytes of a UUID. Another text gives bytes that no row has. */
export function ucidBytes(ucid: string): Buffer {
  return Buffer.from(ucid.replaceAll('-', ''), 'hex');
}

/** Kept in place of a deleted profile: its identity claim keys (hexadecimal) and ucids, no personal data. */
export interface Tombstone {
  readonly claims: readonly string[];
  readonly ucids: readonly string[];
  /** For a move to another store. Absent where a release before 0.2 wrote it. */
  readonly deletion?: Deletion;
}

export interface Deletion extends ProfileScope {
  /** Version of the change that deleted the profile; 0 where only an identity was taken from one. */
  readonly version: number;
  /** `identityHash` of each of the identities of `claims`. */
  readonly hashes: readonly string[];
}

export function tombstoneOf(profile: Profile): Tombstone {
  return {
    claims: profile.identities.map((identity) => identityDigest(profile, identity).toString('hex')),
    ucids: [profile.ucid, ...profile.linked],
    deletion: {
      org: profile.org,
      region: profile.region,
      version: profile.version + 1,
      hashes: profile.identities.map((identity) => identityHash(profile, identity)),
    },
  };
}
