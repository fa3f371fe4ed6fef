import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Profile, ProfileSearch } from '@tributary/core';
import { reading } from '../../sqlite/database.ts';
import { claimOf, ucidBytes } from './keys.ts';

/** A search gives others a turn after this long, ms. */
const TURN_MS = 2;

/** The reading half, in the calling thread: it sees what is committed, whoever did it, and waits for no writer. */
export class ProfileReader {
  readonly #claims: Lookup;
  readonly #ucids: Lookup;

  constructor(database: DatabaseSync) {
    this.#claims = new Lookup(database, 'claims', 'claim');
    this.#ucids = new Lookup(database, 'ucids', 'ucid');
  }

  async search(search: ProfileSearch): Promise<readonly Profile[]> {
    const found = new Map<number, Profile>();
    let turnEnds = performance.now() + TURN_MS;
    for (const [lookup, key] of this.#keysOf(search)) {
      reading(() => lookup.read(key, found));
      if (performance.now() < turnEnds) continue;
      await nextTurn();
      turnEnds = performance.now() + TURN_MS;
    }
    const { org, regions } = search;
    return distinct(
      [...found.values()].filter((profile) => profile.org === org && regions.includes(profile.region)),
    );
  }

  *#keysOf({ org, regions, identities, ucids }: ProfileSearch): Generator<readonly [Lookup, Uint8Array]> {
    for (const ucid of ucids) yield [this.#ucids, ucidBytes(ucid)];
    for (const region of regions)
      for (const identity of identities) yield [this.#claims, claimOf({ org, region }, identity)];
  }
}

/** Finds the live profile that a key leads to. */
class Lookup {
  readonly #id: StatementSync;
  readonly #profile: StatementSync;

  constructor(database: DatabaseSync, table: 'claims' | 'ucids', key: 'claim' | 'ucid') {
    this.#id = database.prepare(`SELECT profile FROM ${table} WHERE ${key} = ?`);
    // One statement sees one state of the file: between two of them the profile could become another.
    this.#profile = database.prepare(
      `SELECT profiles.profile, profiles.body FROM ${table} JOIN profiles USING (profile)
       WHERE ${table}.${key} = ? AND profiles.deleted_at IS NULL`,
    );
  }

  /** Adds the profile to `found`; one that is there is not read again. */
  read(key: Uint8Array, found: Map<number, Profile>): void {
    if (found.size > 0 && found.has(Number(this.#id.get(key)?.profile))) return;
    const row = this.#profile.get(key);
    if (row !== undefined) found.set(Number(row.profile), JSON.parse(String(row.body)) as Profile);
  }
}

/** Oldest first; without those that became another of them while they were looked for. */
function distinct(profiles: readonly Profile[]): readonly Profile[] {
  if (profiles.length < 2) return profiles;
  const merged = new Set(profiles.flatMap(({ linked }) => linked));
  return profiles
    .filter(({ ucid }) => !merged.has(ucid))
    .sort((left, right) => (left.ucid < right.ucid ? -1 : 1));
}
