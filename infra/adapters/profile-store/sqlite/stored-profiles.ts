import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { type Profile, type ProfileChange, parseExact } from '@tributary/core';
import { claimOf, ucidBytes } from './keys.ts';
import { outboxRows, type WaitingChange } from './outbox-row.ts';
import { type Tombstone, tombstoneOf } from './tombstone.ts';

/** Characters of profiles kept in memory from one transaction to the next, at most. */
const KEPT_CHARACTERS = 4 * 1024 * 1024;

export type StoredProfile =
  | { readonly kind: 'live'; readonly id: number; profile: Profile; text: string; dirty: boolean }
  | { readonly kind: 'deleted'; readonly id: number; readonly at: number };

/** Who has an identity, and when it was last deleted, epoch ms, be it from who has it now or from another before. */
export interface Claimed {
  readonly stored: StoredProfile;
  readonly deletedAt: number | undefined;
}

export type LiveProfile = Extract<StoredProfile, { kind: 'live' }>;

/**
 * The tables as one transaction after the other sees them. What a transaction changes of a profile again and again is
 * written once, by `flush`, and so are changes. Profiles are remembered until somebody else has written to the file.
 */
export class StoredProfiles {
  readonly #statements: ReturnType<typeof prepare>;
  #known = new Map<number, StoredProfile>();
  #knownCharacters = 0;
  #knownVersion: unknown;
  readonly #dirty = new Set<LiveProfile>();
  /** To be told by the outbox. */
  #changes: WaitingChange[] = [];

  constructor(database: DatabaseSync) {
    this.#statements = prepare(database);
  }

  /** First thing in a transaction: forgets what others may have changed. */
  begin(): void {
    const version = this.#statements.version.get()?.data_version;
    if (version !== this.#knownVersion || this.#knownCharacters > KEPT_CHARACTERS) this.forgetKnown();
    this.#knownVersion = version;
  }

  /** What is remembered holds no more: a transaction failed. */
  forgetKnown(): void {
    this.#known = new Map();
    this.#knownCharacters = 0;
    this.#knownVersion = undefined;
    this.#dirty.clear();
    this.#changes = [];
  }

  byClaim(claim: Uint8Array): Claimed | undefined {
    const row = this.#statements.claim.get(claim);
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
    this.#remember(stored);
    this.#statements.leadUcid.run(ucidBytes(profile.ucid), id);
    return stored;
  }

  replace(stored: LiveProfile, profile: Profile, text: string): void {
    this.#knownCharacters += text.length - stored.text.length;
    stored.profile = profile;
    stored.text = text;
    stored.dirty = true;
    this.#dirty.add(stored);
  }

  /** Lets the claim lead to the profile; `deletedAt` is when it was last deleted from another, where that is known. */
  claim(claim: Uint8Array, { id }: LiveProfile, deletedAt: number | undefined): void {
    this.#statements.lead.run(claim, id, deletedAt ?? null);
  }

  /** Lets the claim lead to nobody. When the identity was last deleted stays known, by a tombstone of its own. */
  free(claim: Buffer, { id }: LiveProfile, deletedAt: number | undefined): void {
    if (deletedAt === undefined) {
      this.#statements.unlead.run(claim, id);
      return;
    }
    const tombstone: Tombstone = { claims: [claim.toString('hex')], ucids: [] };
    const buried = this.#statements.insertBuried.run(JSON.stringify(tombstone), deletedAt);
    this.#statements.lead.run(claim, Number(buried.lastInsertRowid), null);
  }

  /** Lets everything that leads to `other` lead to `master`. */
  absorb(other: LiveProfile, master: LiveProfile): void {
    const { profile } = other;
    for (const identity of profile.identities)
      this.#statements.move.run(master.id, claimOf(profile, identity));
    for (const ucid of [profile.ucid, ...profile.linked])
      this.#statements.leadUcid.run(ucidBytes(ucid), master.id);
    this.#statements.remove.run(other.id);
    this.#forget(other);
  }

  /** Lets the ucid and the identities of a profile that was split off lead to it; what is known of deletions stays. */
  splitOff(profile: Profile, text: string): void {
    const { id } = this.create(profile, text);
    for (const identity of profile.identities) this.#statements.move.run(id, claimOf(profile, identity));
  }

  /** Puts a tombstone in place of the profile; what led to it goes on to do so. */
  bury(stored: LiveProfile, at: number): void {
    this.#statements.bury.run(JSON.stringify(tombstoneOf(stored.profile)), at, stored.id);
    this.#forget(stored);
  }

  /** Puts a change into the outbox. `split`: a ucid that led to the profile and is split off by the change. */
  record({ profile: _, ...change }: ProfileChange, split?: string): void {
    this.#changes.push(split === undefined ? change : { ...change, split });
  }

  /** Takes changes out of the outbox; how many. */
  published(upTo: number): number {
    return Number(this.#statements.published.run(upTo).changes);
  }

  /** Forgets deletions before the time, at most so many of each kind; how many. */
  forgetDeletions(before: number, atMost: number): number {
    const ofClaims = Number(this.#statements.forgetClaims.run(before, atMost).changes);
    return ofClaims + this.#dropTombstones(before, atMost);
  }

  /** The tombstones that were put first, and what leads to them. */
  #dropTombstones(before: number, atMost: number): number {
    const rows = this.#statements.expired.all(before, atMost);
    for (const { profile: id, body } of rows) {
      const { claims, ucids } = JSON.parse(String(body)) as Tombstone;
      for (const claim of claims) this.#statements.unlead.run(Buffer.from(claim, 'hex'), Number(id));
      for (const ucid of ucids) this.#statements.unleadUcid.run(ucidBytes(ucid), Number(id));
      this.#statements.remove.run(Number(id));
      this.#known.delete(Number(id));
    }
    return rows.length;
  }

  /** Writes what changed. Last thing in a transaction. */
  flush(): void {
    for (const stored of this.#dirty) {
      this.#statements.update.run(stored.text, stored.id);
      stored.dirty = false;
    }
    this.#dirty.clear();
    for (const row of outboxRows(this.#changes)) this.#statements.record.run(row.length, JSON.stringify(row));
    this.#changes = [];
  }

  #stored(id: unknown): StoredProfile | undefined {
    if (id === undefined) return undefined;
    const known = this.#known.get(Number(id));
    if (known !== undefined) return known;
    const row = this.#statements.read.get(Number(id));
    if (row === undefined) throw new Error(`a key leads to profile ${id}, which is not there`);
    const stored: StoredProfile =
      row.deleted_at === null
        ? live(Number(id), String(row.body))
        : { kind: 'deleted', id: Number(id), at: Number(row.deleted_at) };
    this.#remember(stored);
    return stored;
  }

  #remember(stored: StoredProfile): void {
    this.#known.set(stored.id, stored);
    this.#knownCharacters += stored.kind === 'live' ? stored.text.length : 0;
  }

  #forget(stored: LiveProfile): void {
    this.#known.delete(stored.id);
    this.#knownCharacters -= stored.text.length;
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
    insertBuried: database.prepare('INSERT INTO profiles (body, deleted_at) VALUES (?, ?)'),
    update: database.prepare('UPDATE profiles SET body = ? WHERE profile = ?'),
    bury: database.prepare('UPDATE profiles SET body = ?, deleted_at = ? WHERE profile = ?'),
    remove: database.prepare('DELETE FROM profiles WHERE profile = ?'),
    lead: database.prepare(
      `INSERT INTO claims (claim, profile, deleted_at) VALUES (?, ?, ?)
       ON CONFLICT DO UPDATE SET profile = excluded.profile, deleted_at = excluded.deleted_at`,
    ),
    move: database.prepare('UPDATE claims SET profile = ? WHERE claim = ?'),
    leadUcid: database.prepare(
      'INSERT INTO ucids (ucid, profile) VALUES (?, ?) ON CONFLICT DO UPDATE SET profile = excluded.profile',
    ),
    unlead: database.prepare('DELETE FROM claims WHERE claim = ? AND profile = ?'),
    unleadUcid: database.prepare('DELETE FROM ucids WHERE ucid = ? AND profile = ?'),
    record: database.prepare(
      `INSERT INTO outbox (change, body)
       VALUES (coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'outbox'), 0) + ?, ?)`,
    ),
    published: database.prepare('DELETE FROM outbox WHERE change <= ?'),
    forgetClaims: database.prepare(
      `UPDATE claims SET deleted_at = NULL
       WHERE claim IN (SELECT claim FROM claims WHERE deleted_at < ? LIMIT ?)`,
    ),
    expired: database.prepare(
      'SELECT profile, body FROM profiles WHERE deleted_at < ? ORDER BY deleted_at LIMIT ?',
    ),
  } satisfies Record<string, StatementSync>;
}
