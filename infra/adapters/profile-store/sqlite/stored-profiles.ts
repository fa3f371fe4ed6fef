import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { type Identity, identityHash, type Profile, type ProfileChange, parseExact } from '@tributary/core';
import { type OutboxChange, outboxRows } from './outbox.ts';
import { identityDigest, type Tombstone, tombstoneOf, ucidBytes } from './schema.ts';

/** Most characters of profiles that stay cached from one transaction to the next. */
const CACHE_CHARACTERS = 4 * 1024 * 1024;

export type StoredProfile =
  | { readonly kind: 'live'; readonly id: number; profile: Profile; text: string; dirty: boolean }
  | { readonly kind: 'deleted'; readonly id: number; readonly at: number };

/**
 * The profile or tombstone that an identity claim leads to, and when the identity was last deleted, from it or another, epoch
 * ms.
 */
export interface IdentityClaimTarget {
  readonly stored: StoredProfile;
  readonly deletedAt: number | undefined;
}

export type LiveProfile = Extract<StoredProfile, { kind: 'live' }>;

/**
 * The tables as seen by one transaction after the other. Repeated updates of a profile, and the changes for the outbox, are
 * written once per transaction, by `flush`. Profiles are cached until another connection writes to the file.
 */
export class StoredProfiles {
  readonly #statements: ReturnType<typeof prepare>;
  #cache = new Map<number, StoredProfile>();
  #cachedCharacters = 0;
  #cachedVersion: unknown;
  readonly #dirty = new Set<LiveProfile>();
  /** To be written to the outbox. */
  #changes: OutboxChange[] = [];

  constructor(database: DatabaseSync) {
    this.#statements = prepare(database);
  }

  /** Call first in a transaction: drops the cache if another connection has written. */
  begin(): void {
    const version = this.#statements.version.get()?.data_version;
    if (version !== this.#cachedVersion || this.#cachedCharacters > CACHE_CHARACTERS) this.dropCache();
    this.#cachedVersion = version;
  }

  /** Call after a failed transaction, whose updates are in the cache. */
  dropCache(): void {
    this.#cache = new Map();
    this.#cachedCharacters = 0;
    this.#cachedVersion = undefined;
    this.#dirty.clear();
    this.#changes = [];
  }

  byIdentity(digest: Uint8Array): IdentityClaimTarget | undefined {
    const row = this.#statements.claim.get(digest);
    const stored = this.#stored(row?.profile);
    if (stored === undefined) return undefined;
    const before = row?.deleted_at;
    const times = [
      ...(typeof before === 'number' ? [before] : []),
      ...(stored.kind === 'deleted' ? [stored.at] : []),
    ];
    return { stored, deletedAt: times.length === 0 ? undefined : Math.max(...times) };
  }

  byUcid(ucid: string): StoredProfile | undefined {
    return this.#stored(this.#statements.ucid.get(ucidBytes(ucid))?.profile);
  }

  create(profile: Profile, text: string): LiveProfile {
    const id = Number(this.#statements.insert.run(text).lastInsertRowid);
    const stored: LiveProfile = { kind: 'live', id, profile, text, dirty: false };
    this.#addToCache(stored);
    this.#statements.putUcid.run(ucidBytes(profile.ucid), id);
    return stored;
  }

  replace(stored: LiveProfile, profile: Profile, text: string): void {
    this.#cachedCharacters += text.length - stored.text.length;
    stored.profile = profile;
    stored.text = text;
    stored.dirty = true;
    this.#dirty.add(stored);
  }

  /** Points the identity claim to the profile. `deletedAt`: when the identity was last deleted from another one, if ever. */
  putIdentityClaim(digest: Uint8Array, { id }: LiveProfile, deletedAt: number | undefined): void {
    this.#statements.putClaim.run(digest, id, deletedAt ?? null);
  }

  /** Takes the identity from the profile. The time of an earlier deletion is kept, in a tombstone of its own. */
  releaseIdentity(identity: Identity, { id, profile }: LiveProfile, deletedAt: number | undefined): void {
    const digest = identityDigest(profile, identity);
    if (deletedAt === undefined) {
      this.#statements.deleteClaim.run(digest, id);
      return;
    }
    const { org, region } = profile;
    const deletion = { org, region, version: 0, hashes: [identityHash(profile, identity)] };
    const tombstone: Tombstone = { claims: [digest.toString('hex')], ucids: [], deletion };
    const inserted = this.#statements.insertTombstone.run(JSON.stringify(tombstone), deletedAt);
    this.#statements.putClaim.run(digest, Number(inserted.lastInsertRowid), null);
  }

  /** Points all identity claims and ucids of `other` to `survivor`, and removes `other`. */
  absorb(other: LiveProfile, survivor: LiveProfile): void {
    const { profile } = other;
    for (const identity of profile.identities)
      this.#statements.moveClaim.run(survivor.id, identityDigest(profile, identity));
    for (const ucid of [profile.ucid, ...profile.linked])
      this.#statements.putUcid.run(ucidBytes(ucid), survivor.id);
    this.#statements.remove.run(other.id);
    this.#removeFromCache(other);
  }

  /** Creates a profile that was split off, and points its ucid and identity claims to it. Times of deletions are kept. */
  splitOff(profile: Profile, text: string): void {
    const { id } = this.create(profile, text);
    for (const identity of profile.identities)
      this.#statements.moveClaim.run(id, identityDigest(profile, identity));
  }

  /** Replaces the profile by a tombstone. Its identity claims and ucids still lead to it. */
  replaceWithTombstone(stored: LiveProfile, at: number): void {
    this.#statements.putTombstone.run(JSON.stringify(tombstoneOf(stored.profile)), at, stored.id);
    this.#removeFromCache(stored);
  }

  /** Adds a change to the outbox. `split`: a ucid that the change splits off. */
  record({ profile: _, ...change }: ProfileChange, split?: string): void {
    this.#changes.push(split === undefined ? change : { ...change, split });
  }

  /** Removes changes up to this number from the outbox; returns how many. */
  removePublished(upTo: number): number {
    return Number(this.#statements.deleteChanges.run(upTo).changes);
  }

  /** Forgets deletions before the time, at most `atMost` of each kind; returns how many. */
  forgetDeletions(before: number, atMost: number): number {
    const ofIdentities = Number(this.#statements.forgetClaims.run(before, atMost).changes);
    return ofIdentities + this.#dropTombstones(before, atMost);
  }

  /** Removes the oldest tombstones, and the identity claims and ucids that lead to them. */
  #dropTombstones(before: number, atMost: number): number {
    const rows = this.#statements.expired.all(before, atMost);
    for (const { profile: id, body } of rows) {
      const { claims, ucids } = JSON.parse(String(body)) as Tombstone;
      for (const digest of claims) this.#statements.deleteClaim.run(Buffer.from(digest, 'hex'), Number(id));
      for (const ucid of ucids) this.#statements.deleteUcid.run(ucidBytes(ucid), Number(id));
      this.#statements.remove.run(Number(id));
      this.#cache.delete(Number(id));
    }
    return rows.length;
  }

  /** Writes the updates and the changes. Call last in a transaction. */
  flush(): void {
    for (const stored of this.#dirty) {
      this.#statements.update.run(stored.text, stored.id);
      stored.dirty = false;
    }
    this.#dirty.clear();
    for (const row of outboxRows(this.#changes))
      this.#statements.insertChange.run(row.length, JSON.stringify(row));
    this.#changes = [];
  }

  #stored(id: unknown): StoredProfile | undefined {
    if (id === undefined) return undefined;
    const cached = this.#cache.get(Number(id));
    if (cached !== undefined) return cached;
    const row = this.#statements.read.get(Number(id));
    if (row === undefined) throw new Error(`a key leads to profile ${id}, which is not there`);
    const stored: StoredProfile =
      row.deleted_at === null
        ? live(Number(id), String(row.body))
        : { kind: 'deleted', id: Number(id), at: Number(row.deleted_at) };
    this.#addToCache(stored);
    return stored;
  }

  #addToCache(stored: StoredProfile): void {
    this.#cache.set(stored.id, stored);
    this.#cachedCharacters += stored.kind === 'live' ? stored.text.length : 0;
  }

  #removeFromCache(stored: LiveProfile): void {
    this.#cache.delete(stored.id);
    this.#cachedCharacters -= stored.text.length;
    this.#dirty.delete(stored);
  }
}

function live(id: number, text: string): LiveProfile {
  return { kind: 'live', id, profile: parseExact(text) as Profile, text, dirty: false };
}

function prepare(database: DatabaseSync) {
  return {
    version: database.prepare('PRAGMA data_version'),
    claim: database.prepare('SELECT profile, deleted_at FROM claims WHERE claim = ?'),
    ucid: database.prepare('SELECT profile FROM ucids WHERE ucid = ?'),
    read: database.prepare('SELECT body, deleted_at FROM profiles WHERE profile = ?'),
    insert: database.prepare('INSERT INTO profiles (body) VALUES (?)'),
    insertTombstone: database.prepare('INSERT INTO profiles (body, deleted_at) VALUES (?, ?)'),
    update: database.prepare('UPDATE profiles SET body = ? WHERE profile = ?'),
    putTombstone: database.prepare('UPDATE profiles SET body = ?, deleted_at = ? WHERE profile = ?'),
    remove: database.prepare('DELETE FROM profiles WHERE profile = ?'),
    putClaim: database.prepare(
      `INSERT INTO claims (claim, profile, deleted_at) VALUES (?, ?, ?)
       ON CONFLICT DO UPDATE SET profile = excluded.profile, deleted_at = excluded.deleted_at`,
    ),
    moveClaim: database.prepare('UPDATE claims SET profile = ? WHERE claim = ?'),
    putUcid: database.prepare(
      'INSERT INTO ucids (ucid, profile) VALUES (?, ?) ON CONFLICT DO UPDATE SET profile = excluded.profile',
    ),
    deleteClaim: database.prepare('DELETE FROM claims WHERE claim = ? AND profile = ?'),
    deleteUcid: database.prepare('DELETE FROM ucids WHERE ucid = ? AND profile = ?'),
    insertChange: database.prepare(
      `INSERT INTO outbox (change, body)
       VALUES (coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'outbox'), 0) + ?, ?)`,
    ),
    deleteChanges: database.prepare('DELETE FROM outbox WHERE change <= ?'),
    forgetClaims: database.prepare(
      `UPDATE claims SET deleted_at = NULL
       WHERE claim IN (SELECT claim FROM claims WHERE deleted_at < ? LIMIT ?)`,
    ),
    expired: database.prepare(
      'SELECT profile, body FROM profiles WHERE deleted_at < ? ORDER BY deleted_at LIMIT ?',
    ),
  } satisfies Record<string, StatementSync>;
}
