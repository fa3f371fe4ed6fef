import { dirname, join } from 'node:path';
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { type MessagePort, parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import {
  type AppliedSplit,
  applySplit,
  backoffMs,
  chargeOf,
  decideUnlink,
  decideWrite,
  deletionOf,
  type Identity,
  type IdentityOwner,
  identitiesToLookUp,
  identityHash,
  isInScope,
  messageOf,
  newId,
  type Profile,
  type ProfileChange,
  type ProfileScope,
  type ProfileSplit,
  type ProfileUnlink,
  parseExact,
} from '@tributary/core';
import { isBusy, openDatabase, translateSqliteError } from '../../sqlite/database.ts';
import type { ThreadReply, ThreadRequest } from '../../sqlite/store-thread.ts';
import { WalCheckpointer } from '../../sqlite/wal-checkpointer.ts';
import { type OutboxChange, outboxRows } from './outbox.ts';
import type {
  Answers,
  FailedRequest,
  RequestGroup,
  StoreAnswer,
  StoreRequest,
  WriterOptions,
} from './profile-store.ts';
import { identityDigest, type Tombstone, tombstoneOf, ucidBytes } from './schema.ts';

/*
 * The thread that writes profiles, one transaction at a time, and waits for the disk: the tables, what each request does
 * to them, and the loop.
 */

/** Most characters of profiles that stay cached from one transaction to the next. */
const CACHE_CHARACTERS = 4 * 1024 * 1024;

type StoredProfile =
  | { readonly kind: 'live'; readonly id: number; profile: Profile; text: string; dirty: boolean }
  | { readonly kind: 'deleted'; readonly id: number; readonly at: number };

/**
 * The profile or tombstone that an identity claim leads to, and when the identity was last deleted, from it or another, epoch
 * ms.
 */
interface IdentityClaimTarget {
  readonly stored: StoredProfile;
  readonly deletedAt: number | undefined;
}

type LiveProfile = Extract<StoredProfile, { kind: 'live' }>;

/**
 * The tables as seen by one transaction after the other. Repeated updates of a profile, and the changes for the outbox, are
 * written once per transaction, by `flush`. Profiles are cached until another connection writes to the file.
 */
class StoredProfiles {
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

type Upsert = Extract<StoreRequest, { kind: 'upsert' }>;
type Deletion = Extract<StoreRequest, { kind: 'delete' }>;

/** Most deletions forgotten in one transaction: writes wait for it. */
const FORGOTTEN_AT_ONCE = 100;

/**
 * Carries out one request within a transaction. It decides before it writes: an error of the decision fails this request
 * only, while an error of the database is thrown and rolls the transaction back.
 */
function carryOut(stored: StoredProfiles, request: StoreRequest): StoreAnswer {
  switch (request.kind) {
    case 'upsert':
      return upsert(stored, request);
    case 'delete':
      return remove(stored, request);
    case 'unlink':
      return unlink(stored, request.unlink, request.now);
    case 'split':
      return split(stored, request.split, request.now);
    case 'published':
      return { kind: 'done', count: stored.removePublished(request.upTo) };
    case 'forget':
      return { kind: 'done', count: stored.forgetDeletions(request.before, FORGOTTEN_AT_ONCE) };
  }
}

function upsert(stored: StoredProfiles, request: Upsert): Answers['upsert'] | FailedRequest {
  const { write, digests, ucid, now } = request;
  const found = identitiesToLookUp(write).map((identity, at) => {
    const digest = Buffer.from(digests[at] ?? '', 'hex');
    return { identity, digest, owner: stored.byIdentity(digest) };
  });
  const named = write.ucid === undefined ? undefined : liveIn(write, stored.byUcid(write.ucid));
  const decision = decided(() => {
    const owners = found.map(({ owner }) => ownerOf(owner));
    const namedProfile = write.ucid === undefined ? undefined : (named?.profile ?? 'gone');
    return decideWrite(write, { owners, named: namedProfile }, now, () => ucid);
  });
  if (decision.kind === 'failed') return decision;
  const byUcid = new Map(
    [named, ...found.map(({ owner }) => owner?.stored)]
      .filter(isLive)
      .map((live) => [live.profile.ucid, live]),
  );
  let read = 0;
  for (const live of byUcid.values()) read += live.text.length;
  if (decision.kind === 'refused') return { ...decision, ...chargeOf(read) };
  if (decision.kind === 'detach') {
    const live = byUcid.get(decision.profile.ucid);
    if (live === undefined) throw new Error('a profile that loses a part was not found');
    putSplit(stored, live, decision.split, decision.ucid);
    return upsert(stored, { ...request, ucid: newId() });
  }
  const { applied, profiles, held, leftOut } = decision;
  const { profile } = applied;
  const survivor = byUcid.get(profile.ucid);
  if (applied.kind === 'unchanged') {
    if (survivor === undefined) throw new Error('an unchanged profile was not found');
    return { kind: 'written', profile: survivor.text, leftOut, ...chargeOf(read) };
  }
  const { text, change, dropped } = applied;
  const target = survivor ?? stored.create(profile, text);
  if (survivor !== undefined) stored.replace(survivor, profile, text);
  for (const { ucid } of profiles) {
    const live = byUcid.get(ucid);
    if (live !== undefined && live !== target) stored.absorb(live, target);
  }
  const written = new Set(held);
  for (const { identity, digest, owner } of found)
    if (owner?.stored.kind !== 'live' && written.has(identity))
      stored.putIdentityClaim(digest, target, owner?.deletedAt);
  // After `absorb`, as dropped identities may be claimed by a merged profile.
  for (const identity of dropped) {
    const digest = identityDigest(write, identity);
    const owner = stored.byIdentity(digest);
    if (owner?.stored === target) stored.releaseIdentity(identity, target, owner.deletedAt);
  }
  stored.record(change);
  return { kind: 'written', profile: text, leftOut, ...chargeOf(read, text.length) };
}

function remove(
  stored: StoredProfiles,
  { deletion: { org, regions, identities, ucids }, earlier, now }: Deletion,
): Answers['delete'] {
  const scopes = regions.map((region) => ({ org, region }));
  const found = [
    ...identities.map((identity) =>
      scopes.map((scope) => stored.byIdentity(identityDigest(scope, identity))?.stored),
    ),
    ...ucids.map((ucid) => {
      const one = stored.byUcid(ucid);
      return one?.kind === 'deleted' ? [one] : scopes.map((scope) => liveIn(scope, one));
    }),
  ];
  const targets = [...new Set(found.flat().filter(isLive))];
  const ids = new Set([...earlier.map((ucid) => stored.byUcid(ucid)?.id), ...targets.map(({ id }) => id)]);
  const read = targets.reduce((sum, { text }) => sum + text.length, 0);
  for (const live of targets) {
    stored.replaceWithTombstone(live, now);
    stored.record(deletionOf(live.profile, now));
  }
  const deleted = targets.map(({ profile }) => profile.ucid);
  const isMatch = (one: StoredProfile | undefined) => one !== undefined && ids.has(one.id);
  const notFound = found.flatMap((some, at) => (some.some(isMatch) ? [] : [at]));
  return { kind: 'deleted', outcome: { deleted, notFound, ...chargeOf(read) } };
}

function unlink(
  stored: StoredProfiles,
  request: ProfileUnlink,
  now: number,
): Answers['unlink'] | FailedRequest {
  const digests = request.identities.map((identity) => identityDigest(request, identity));
  const found = digests.map((digest) => stored.byIdentity(digest));
  const owners = found.map((owner) => (isLive(owner?.stored) ? owner.stored : undefined));
  const named = request.ucid === undefined ? undefined : liveIn(request, stored.byUcid(request.ucid));
  const decision = decided(() =>
    decideUnlink(
      request,
      owners.map((owner) => owner?.profile),
      named?.profile,
      now,
      newId,
    ),
  );
  if (decision.kind === 'failed') return decision;
  const target = named ?? owners.find(isLive);
  const read = target?.text.length ?? 0;
  if (decision.kind === 'refused') return { ...decision, ...chargeOf(read) };
  if (target === undefined) throw new Error('an unlinked profile was not found');
  if (decision.kind === 'split') {
    const { survivor, apart, kept, lost } = decision.split;
    putSplit(stored, target, decision.split, decision.ucid);
    const [left, taken] = decision.isNamed ? [survivor, apart] : [apart, survivor];
    const split = { ucid: taken.profile.ucid, kept, lost };
    return { kind: 'unlinked', profile: left.text, notHeld: [], split, ...chargeOf(read, left.text.length) };
  }
  const { profile, text, change, notHeld } = decision;
  stored.replace(target, profile, text);
  for (const [at, identity] of request.identities.entries())
    if (owners[at] !== undefined) stored.releaseIdentity(identity, target, found[at]?.deletedAt);
  stored.record(change);
  return { kind: 'unlinked', profile: text, notHeld, ...chargeOf(read, text.length) };
}

function split(stored: StoredProfiles, request: ProfileSplit, now: number): Answers['split'] | FailedRequest {
  const merged = liveIn(request, stored.byUcid(request.ucid));
  if (merged === undefined) return { kind: 'refused', reason: 'unknown_ucid' };
  const decision = decided(() => applySplit(merged.profile, request.ucid, now));
  if (decision.kind === 'failed') return decision;
  const read = merged.text.length;
  if (decision.kind === 'refused') return { ...decision, ...chargeOf(read) };
  const { survivor, apart, kept, lost } = decision;
  putSplit(stored, merged, decision, request.ucid);
  return { kind: 'split', profile: apart.text, survivor: survivor.text, kept, lost, ...chargeOf(read) };
}

function putSplit(
  stored: StoredProfiles,
  merged: LiveProfile,
  { survivor, apart }: Extract<AppliedSplit, { kind: 'split' }>,
  ucid: string,
): void {
  stored.replace(merged, survivor.profile, survivor.text);
  stored.splitOff(apart.profile, apart.text);
  stored.record(survivor.change, ucid);
  stored.record(apart.change);
}

function ownerOf(owner: IdentityClaimTarget | undefined): IdentityOwner {
  if (owner === undefined) return { kind: 'unowned' };
  const { stored, deletedAt } = owner;
  return stored.kind === 'live'
    ? { kind: 'live', profile: stored.profile, deletedAt }
    : { kind: 'deleted', at: deletedAt ?? stored.at };
}

function liveIn(scope: ProfileScope, found: StoredProfile | undefined): LiveProfile | undefined {
  return found?.kind === 'live' && isInScope(found.profile, scope) ? found : undefined;
}

function isLive(found: StoredProfile | undefined): found is LiveProfile {
  return found?.kind === 'live';
}

function decided<T>(decide: () => T): T | FailedRequest {
  try {
    return decide();
  } catch (error) {
    return { kind: 'failed', error: messageOf(error) };
  }
}

if (!parentPort) throw new Error('writer-thread.ts runs as a worker thread');
const port: MessagePort = parentPort;

/** For the index pages of millions of profiles: keys are random, so pages outside of the cache are read again and again. */
const CACHE_KIB = 64 * 1024;
/** WAL pages after which the checkpointer thread runs: 64 MB. */
const MANY_PAGES = 16_000;
/** WAL pages that it leaves to this thread, which writes may wait for. */
const FEW_PAGES = 500;
/** Target length of one transaction, ms: later requests wait for its end, and other processes for the file. */
const TRANSACTION_MS = 30;
/** Time that one owner may use of it while others wait, ms. A write of a profile of 256 KiB takes 5 ms. */
const TURN_MS = 5;
/** How often the thread looks for further groups within a transaction, ms. */
const POLL_MS = 1;

/** Deletions within this time are erased together, ms. */
const ERASE_AFTER_MS = 200;
const RETRY_AFTER_MS = 1_000;
/** A reader that keeps a snapshot of the file open for longer prevents the erasure, until the next deletion. */
const ATTEMPTS = 60;
/** How long the last attempt waits for readers and writers, ms. */
const LAST_WAIT_MS = 250;

/**
 * Erases deleted profiles from the files. `secure_delete` overwrites them in the tables; earlier versions remain in the
 * write-ahead log until it is truncated, which has to wait for its readers.
 */
class Erasure {
  readonly #database: DatabaseSync;
  #attempts = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(database: DatabaseSync) {
    this.#database = database;
  }

  /** Erases recent deletions soon, between writes. */
  schedule(): void {
    this.#attempts = ATTEMPTS;
    this.#scheduleIn(ERASE_AFTER_MS);
  }

  /** The last attempt of this process. Blocks for up to 250 ms while the file is in use. */
  eraseNow(): void {
    clearTimeout(this.#timer);
    this.#database.exec(`PRAGMA busy_timeout = ${LAST_WAIT_MS}`);
    this.#erase();
  }

  #scheduleIn(ms: number): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#attempts -= 1;
      if (!this.#erase() && this.#attempts > 0) this.#scheduleIn(RETRY_AFTER_MS);
    }, ms).unref();
  }

  /** True when the write-ahead log is empty. */
  #erase(): boolean {
    try {
      return this.#database.prepare('PRAGMA wal_checkpoint(TRUNCATE)').get()?.busy === 0;
    } catch (error) {
      if (isBusy(error)) return false;
      throw error;
    }
  }
}

const { file, busyTimeoutMs }: WriterOptions = workerData;
const database = openDatabase(file, { busyTimeoutMs });
/**
 * Held while a thread waits for the write lock of the profiles: the gateway and the stages write in threads of their own.
 * A busy writer finds it taken after each transaction, and waits until the other one has had its transaction.
 */
const turnstile = openDatabase(join(dirname(file), 'writing.db'), { busyTimeoutMs });
turnstile.exec('PRAGMA busy_timeout = 0');
database.exec(`PRAGMA busy_timeout = 0; PRAGMA cache_size = -${CACHE_KIB}; PRAGMA secure_delete = ON;`);
const stored = new StoredProfiles(database);
const checkpointer = new WalCheckpointer(database, {
  file,
  checkpointPages: MANY_PAGES,
  inlinePages: FEW_PAGES,
});
const erasure = new Erasure(database);
// A process that died may have left deletions unerased.
erasure.schedule();

/** A group of requests, and the answers to those that are durable. */
interface Job {
  readonly id: number;
  readonly requests: readonly StoreRequest[];
  readonly answers: StoreAnswer[];
  /** Requests that were carried out, durable or not. */
  carriedOut: number;
}

/** The jobs of each owner in their order. The owner of the next turn is first. */
const waiting = new Map<string, Job[]>();
let isWorking = false;
let isClosing = false;

port.on('message', (message: ThreadRequest<RequestGroup>) => {
  accept(message);
  if (!isWorking) work();
});

/** One transaction after the other until nothing waits. Timers and messages get their turn in between. */
function work(): void {
  acceptQueued();
  isWorking = waiting.size > 0;
  if (!isWorking) {
    if (isClosing) void close();
    return;
  }
  commitNext();
  checkpointer.committed();
  setImmediate(work);
}

async function close(): Promise<void> {
  isClosing = false;
  // A running checkpointer would keep the log from being truncated.
  await checkpointer.close();
  erasure.eraseNow();
  turnstile.close();
  database.close();
  port.close();
}

function accept(message: ThreadRequest<RequestGroup>): void {
  if (message.kind === 'close') {
    isClosing = true;
    return;
  }
  const { id, request } = message;
  const { owner } = request;
  const requests = parseExact(request.requests) as readonly StoreRequest[];
  const job: Job = { id, requests, answers: [], carriedOut: 0 };
  const jobs = waiting.get(owner);
  if (jobs === undefined) waiting.set(owner, [job]);
  else jobs.push(job);
}

/** Further messages in the queue: groups that waited together share transactions. */
function acceptQueued(): void {
  for (let next = receiveMessageOnPort(port); next !== undefined; next = receiveMessageOnPort(port))
    accept(next.message);
}

/**
 * Carries out requests, one at least, in one transaction, the owners in turns. If it fails, all waiting groups do, as each
 * would wait for the engine again; transactions before stay committed.
 */
function commitNext(): void {
  const answered: (readonly [Job, StoreAnswer])[] = [];
  try {
    inWriteTransaction(database, busyTimeoutMs, () => {
      stored.begin();
      const began = performance.now();
      let polled = began;
      for (let now = began; now - began < TRANSACTION_MS && waiting.size > 0; ) {
        const [turn] = waiting;
        if (turn === undefined) break;
        const [owner, jobs] = turn;
        const turnBegan = now;
        for (let job = jobs[0]; job !== undefined; job = jobs[0]) {
          const request = job.requests[job.carriedOut];
          if (request !== undefined) {
            answered.push([job, carryOut(stored, request)]);
            job.carriedOut += 1;
          }
          if (job.carriedOut >= job.requests.length) jobs.shift();
          now = performance.now();
          if (now - polled >= POLL_MS) {
            acceptQueued();
            polled = now;
          }
          if (now - turnBegan >= (waiting.size > 1 ? TURN_MS : TRANSACTION_MS)) break;
        }
        waiting.delete(owner);
        if (jobs.length > 0) waiting.set(owner, jobs);
      }
      stored.flush();
    });
  } catch (error) {
    failAll(answered, error);
    return;
  }
  for (const [job, answer] of answered) {
    job.answers.push(answer);
    if (job.answers.length === job.requests.length) reply({ kind: 'done', id: job.id, result: job.answers });
  }
  if (answered.some(([, answer]) => answer.kind === 'deleted' && answer.outcome.deleted.length > 0))
    erasure.schedule();
}

function failAll(answered: readonly (readonly [Job, StoreAnswer])[], error: unknown): void {
  stored.dropCache();
  const jobs = new Set([...answered.map(([job]) => job), ...[...waiting.values()].flat()]);
  waiting.clear();
  for (const { id } of jobs) reply({ kind: 'failed', id, error: messageOf(error) });
}

function reply(message: ThreadReply<readonly StoreAnswer[]>): void {
  port.postMessage(message);
}

const BACKOFF = { firstMs: 0.2, capMs: 1 };

/**
 * Runs `work` in one write transaction. Blocks the thread while another thread or process writes; `Unavailable` after
 * `busyTimeoutMs`. It polls every ms: SQLite's own wait grows to 100 ms.
 */
function inWriteTransaction<T>(database: DatabaseSync, busyTimeoutMs: number, work: () => T): T {
  const deadline = performance.now() + busyTimeoutMs;
  begin(turnstile, deadline);
  try {
    begin(database, deadline);
  } finally {
    turnstile.exec('ROLLBACK');
  }
  try {
    const result = work();
    database.exec('COMMIT');
    return result;
  } catch (error) {
    if (database.isTransaction) database.exec('ROLLBACK');
    throw translateSqliteError(error);
  }
}

function begin(database: DatabaseSync, deadline: number): void {
  for (let attempt = 0; ; attempt++) {
    try {
      database.exec('BEGIN IMMEDIATE');
      return;
    } catch (error) {
      if (!isBusy(error)) throw translateSqliteError(error);
      if (performance.now() >= deadline) throw translateSqliteError(error, database.location() ?? undefined);
    }
    pause(backoffMs(attempt, BACKOFF) * (0.5 + Math.random()));
  }
}

const neverNotified = new Int32Array(new SharedArrayBuffer(4));

function pause(ms: number): void {
  Atomics.wait(neverNotified, 0, 0, ms);
}
