import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { setImmediate as nextTurn } from 'node:timers/promises';
import {
  checkFoundSize,
  EventLoopYielder,
  type Profile,
  type ProfileScope,
  type ProfileSearch,
  parseExact,
} from '@tributary/core';
import { reading } from '../../sqlite/database.ts';
import { identityDigest, ucidBytes } from './schema.ts';

/** How long a search occupies the thread before it yields, ms. */
const SLICE_MS = 2;

/** Profiles whose scope is checked at a time: a few ms. */
const PAGE = 100;

/** Reads in the calling thread: it sees all commits, also of other processes, and waits for no writer. */
export class ProfileReader {
  readonly #claims: Lookup;
  readonly #ucids: Lookup;
  readonly #page: StatementSync;

  constructor(database: DatabaseSync) {
    this.#claims = new Lookup(database, 'claims', 'claim');
    this.#ucids = new Lookup(database, 'ucids', 'ucid');
    this.#page = database.prepare(
      `SELECT max(profile) AS last, max(json_extract(body, '$.org') = ? AND json_extract(body, '$.region') = ?) AS found
       FROM (SELECT profile, body FROM profiles WHERE profile > ? AND deleted_at IS NULL ORDER BY profile LIMIT ${PAGE})`,
    );
  }

  async search(search: ProfileSearch): Promise<readonly Profile[]> {
    const read = new Map<number, Profile>();
    const { org, regions } = search;
    const isWanted = (profile: Profile) => profile.org === org && regions.includes(profile.region);
    const thread = new EventLoopYielder(() => performance.now(), SLICE_MS);
    let characters = 0;
    for (const [lookup, key] of this.#keysOf(search)) {
      const row = reading(() => lookup.read(key, read));
      if (row !== undefined) {
        const profile = parseExact(row.body) as Profile;
        read.set(row.id, profile);
        if (isWanted(profile)) characters += row.body.length;
        checkFoundSize(characters);
      }
      if (thread.isYieldDue) await thread.yield();
    }
    return distinct([...read.values()].filter(isWanted));
  }

  /** Reads all profiles in the worst case, page by page, because no index covers the scope. */
  async holdsProfiles(scope: ProfileScope | undefined): Promise<boolean> {
    for (let after = 0; ; ) {
      const row = reading(() => this.#page.get(scope?.org ?? 0, scope?.region ?? '', after));
      if (row === undefined || row.last === null) return false;
      if (scope === undefined || Number(row.found) === 1) return true;
      after = Number(row.last);
      await nextTurn();
    }
  }

  *#keysOf({ org, regions, identities, ucids }: ProfileSearch): Generator<readonly [Lookup, Uint8Array]> {
    for (const ucid of ucids) yield [this.#ucids, ucidBytes(ucid)];
    for (const region of regions)
      for (const identity of identities) yield [this.#claims, identityDigest({ org, region }, identity)];
  }
}

/** Finds the live profile that a key leads to. */
class Lookup {
  readonly #id: StatementSync;
  readonly #profile: StatementSync;

  constructor(database: DatabaseSync, table: 'claims' | 'ucids', key: 'claim' | 'ucid') {
    this.#id = database.prepare(`SELECT profile FROM ${table} WHERE ${key} = ?`);
    // One statement sees one snapshot; between two statements the profile could be merged into another.
    this.#profile = database.prepare(
      `SELECT profiles.profile, profiles.body FROM ${table} JOIN profiles USING (profile)
       WHERE ${table}.${key} = ? AND profiles.deleted_at IS NULL`,
    );
  }

  /** Undefined if there is none, or if it is in `known`. */
  read(
    key: Uint8Array,
    known: ReadonlyMap<number, Profile>,
  ): { readonly id: number; readonly body: string } | undefined {
    if (known.size > 0 && known.has(Number(this.#id.get(key)?.profile))) return undefined;
    const row = this.#profile.get(key);
    return row === undefined ? undefined : { id: Number(row.profile), body: String(row.body) };
  }
}

/** Oldest first, without profiles that were merged into another result during the search. */
function distinct(profiles: readonly Profile[]): readonly Profile[] {
  if (profiles.length < 2) return profiles;
  const merged = new Set(profiles.flatMap(({ linked }) => linked));
  return profiles
    .filter(({ ucid }) => !merged.has(ucid))
    .sort((left, right) => (left.ucid < right.ucid ? -1 : 1));
}
