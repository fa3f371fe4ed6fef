import {
  backoffMs,
  HASHED_EMAIL,
  type Identity,
  identityKey,
  isInScope,
  isUuid,
  type Logger,
  type Profile,
  type ProfileScope,
  RAW_EMAIL,
  Unavailable,
} from '@tributary/core';
import { LRUCache } from 'lru-cache';
import {
  type DeletedDocument,
  type Documents,
  type DocumentVersion,
  type IdentityClaim,
  identityClaimId,
  identityClaimOf,
  isSameVersion,
  type LiveDocument,
  type ProfileDocument,
  profileDocumentOf,
  profileId,
  type RedirectDocument,
} from './documents.ts';
import type { ChangePublisher } from './publisher.ts';

/** The dependencies shared by every operation of the store. */
export interface OperationContext {
  readonly documents: Documents;
  readonly publisher: ChangePublisher;
  readonly locations: CachedLocations;
  readonly durable: DurableVersions;
  readonly clock: () => number;
  readonly pause: (ms: number) => Promise<void>;
  /** From 0 to 1. */
  readonly random: () => number;
  /** A fresh UUIDv7, increasing within this process. */
  readonly newUcid: () => string;
  readonly logger: Logger;
  /** How long deletions are remembered, ms. */
  readonly retentionMs: number;
  /** Notes the characters of JSON that an operation of the organization has read and rewritten. */
  readonly charge: (org: number, read: number, written?: number) => void;
  /** Registers work that only `close` waits for. `failure` is logged where it fails: later work does without it. */
  readonly background: (work: Promise<unknown>, failure: string) => void;
}

/**
 * Outcome of an attempt that lost a race: a document that it relied on was written by another operation. Every step that
 * it took may be repeated.
 */
export const CONFLICT = Symbol('conflict');
export type Conflict = typeof CONFLICT;

/** How long an operation is retried before it fails with `Unavailable`. */
const RETRY_FOR_MS = 15_000;
/** Upper bounds of the random pauses between attempts. */
const BACKOFF = { firstMs: 2, capMs: 200 };

/** Repeats the attempt until it does not conflict, with growing random pauses. `Unavailable` after 15 s of conflicts. */
export async function retryOnConflict<T>(
  { clock, pause, random }: Pick<OperationContext, 'clock' | 'pause' | 'random'>,
  attempt: () => Promise<T | Conflict>,
): Promise<T> {
  const startedAt = clock();
  for (let attempts = 0; ; attempts++) {
    const outcome = await attempt();
    if (outcome !== CONFLICT) return outcome as T;
    if (clock() - startedAt > RETRY_FOR_MS)
      throw new Unavailable('the profile is written by too many others at once');
    await pause(random() * backoffMs(attempts, BACKOFF));
  }
}

/** Longer than any request is under way: a write of before is durable or lost. */
const DURABLE_AFTER_MS = 60_000;

type Rewritable = LiveDocument | RedirectDocument | DeletedDocument;

/**
 * Versions of documents that are known to be durable. Elasticsearch shows a write to realtime reads before it is durable,
 * and a crash of a node may take it back. So before an answer or a write rests on a version that is not known to be
 * durable, the document is rewritten unchanged: an acknowledged write is durable.
 */
export class DurableVersions {
  readonly #documents: Documents;
  readonly #clock: () => number;
  readonly #known: LRUCache<string, DocumentVersion>;

  constructor(documents: Documents, clock: () => number, limit: number) {
    this.#documents = documents;
    this.#clock = clock;
    this.#known = new LRUCache({ max: limit });
  }

  /** Records a version that was acknowledged. */
  note(ucid: string, version: DocumentVersion): void {
    this.#known.set(ucid, version);
  }

  /**
   * A clean tombstone is durable: it is marked clean only after a rewrite was acknowledged. A dirty one is never taken for
   * durable by its age.
   */
  isDurable(ucid: string, document: Rewritable): boolean {
    if (isSameVersion(this.#known.get(ucid), document.stored.version)) return true;
    if (document.state === 'deleted') return !document.dirty;
    return (document.stored.source.updated_ts ?? 0) < this.#clock() - DURABLE_AFTER_MS;
  }

  /** Resolves once all roots are durable as they were read; false when one has changed since. */
  async ensureDurable(roots: Iterable<Root | undefined>): Promise<boolean> {
    const unknown = new Map<string, Rewritable>();
    for (const root of roots) {
      if (root?.kind !== 'profile' && root?.kind !== 'deleted') continue;
      if (!this.isDurable(root.ucid, root.document)) unknown.set(root.ucid, root.document);
    }
    return this.#rewrite(unknown);
  }

  /** The version of the rewritten document, which is durable; undefined when the document has changed since it was read. */
  async rewriteOne(ucid: string, document: Rewritable): Promise<DocumentVersion | undefined> {
    return (await this.#rewrite(new Map([[ucid, document]]))) ? this.#known.get(ucid) : undefined;
  }

  async #rewrite(documents: ReadonlyMap<string, Rewritable>): Promise<boolean> {
    if (documents.size === 0) return true;
    const all = [...documents];
    const results = await this.#documents.write(
      all.map(
        ([
          ucid,
          {
            stored: { version: expected, source },
          },
        ]) => ({ id: profileId(ucid), expected, source }),
      ),
    );
    for (const [index, [ucid]] of all.entries()) {
      const result = results[index];
      if (result !== undefined && result !== 'conflict') this.note(ucid, result);
    }
    return !results.includes('conflict');
  }
}

/** How often documents are read again because of merges and splits, before the operation is `Unavailable`. */
const MAX_ROUNDS = 20;

/** An identity of one scope, with its identity claim hash. */
export interface HashedIdentity {
  readonly identity: Identity;
  readonly hash: string;
}

/**
 * The documents that an operation has read, each at a time of its own. Together they may show a state that never existed, so
 * an operation compares-and-sets every document that it acts on.
 *
 * Because of splits, two findings must have been true at one moment: that an identity claim leads to a profile without the
 * identity, and that a frozen profile is not merged. For these the claim, or the frozen profile, is read again after the
 * profile that it leads to, until it is the same before and after.
 */
export class View {
  readonly #documents: Documents;
  readonly #locations: CachedLocations;
  readonly #identityClaims = new Map<string, IdentityClaim | undefined>();
  readonly #profiles = new Map<string, ProfileDocument | undefined>();
  /** Identity claims that need not be read, because the profile of the cached location lists the identity. */
  readonly #cached = new Map<string, string>();
  readonly #identities = new Map<string, Identity>();

  constructor(documents: Documents, locations: CachedLocations) {
    this.#documents = documents;
    this.#locations = locations;
  }

  async load(identities: readonly HashedIdentity[], ucids: readonly string[]): Promise<void> {
    const uncached: HashedIdentity[] = [];
    const cached: HashedIdentity[] = [];
    const profiles = new Set(ucids);
    for (const one of identities) {
      this.#identities.set(one.hash, one.identity);
      const ucid = this.#locations.get(one.hash);
      if (ucid === undefined) {
        uncached.push(one);
      } else {
        cached.push(one);
        this.#cached.set(one.hash, ucid);
        profiles.add(ucid);
      }
    }
    await this.#read(uncached, profiles);
    // Reading documents again may show a profile that does not list the identity any more.
    for (let rest = cached; ; ) {
      const wrong = rest.filter(({ identity, hash }) => !this.#isConfirmed(identity, hash));
      for (const { hash } of wrong) {
        this.#cached.delete(hash);
        this.#locations.delete(hash);
      }
      if (wrong.length > 0) await this.#read(wrong, new Set());
      else if (rest !== cached || (this.#identityClaims.size === 0 && ucids.length === 0)) return;
      await this.#follow(ucids);
      await this.#resolveInconsistencies(ucids);
      rest = rest.filter(({ hash }) => this.#cached.has(hash));
    }
  }

  /** Caches where the identity claim leads, for later operations. */
  remember(hash: string, ucid: string): void {
    if (this.#cached.get(hash) !== ucid) this.#locations.set(hash, ucid);
  }

  identityClaim(hash: string): IdentityClaim | undefined {
    return this.#identityClaims.get(hash);
  }

  /** The root that an identity claim leads to; undefined if there is no claim. */
  rootOfIdentity(hash: string): Root | undefined {
    const ucid = this.#cached.get(hash) ?? this.#identityClaims.get(hash)?.ucid;
    return ucid === undefined ? undefined : this.rootOf(ucid);
  }

  rootOf(ucid: string): Root {
    return rootOf(ucid, this.#profiles);
  }

  document(ucid: string): ProfileDocument | undefined {
    return this.#profiles.get(ucid);
  }

  /** The document of a profile that was read. */
  contentDocument(ucid: string): LiveDocument | RedirectDocument {
    const document = this.#profiles.get(ucid);
    if (document?.state !== 'live' && document?.state !== 'redirect')
      throw new TypeError('a profile that is changed was not read');
    return document;
  }

  #isConfirmed(identity: Identity, hash: string): boolean {
    const document = this.#profiles.get(this.#cached.get(hash) ?? '');
    return document?.state === 'live' && holds(document.content.profile, identity);
  }

  /** The ucids that the identity claims lead to, and the given ones. */
  *#targets(ucids: readonly string[]): Generator<string> {
    for (const claim of this.#identityClaims.values()) if (claim !== undefined) yield claim.ucid;
    yield* ucids;
  }

  /** Reads documents until the roots of all identity claims and ucids are known. */
  async #follow(ucids: readonly string[]): Promise<void> {
    let tears = 0;
    while (true) {
      const unread = new Set<string>();
      for (const ucid of this.#targets(ucids)) {
        const root = this.rootOf(ucid);
        if (root.kind === 'unread') unread.add(root.ucid);
        if (root.kind === 'torn') for (const torn of [root.ucid, root.of]) unread.add(torn);
      }
      if (unread.size === 0) return;
      if ([...unread].some((ucid) => this.#profiles.has(ucid))) tears++;
      if (tears > MAX_ROUNDS) throw changedWhileRead();
      await this.#read([], unread);
    }
  }

  /** Reads documents again that may have been read before and after a split, until they were the same at one moment. */
  async #resolveInconsistencies(ucids: readonly string[]): Promise<void> {
    const settled = new Set<string>();
    for (let rounds = 0; ; rounds++) {
      const open = [...this.#inconsistencies(ucids)].filter(([, one]) => !settled.has(textOf(one)));
      if (open.length === 0) return;
      if (rounds > MAX_ROUNDS) throw changedWhileRead();
      await this.#read([], new Set(open.flatMap(([, { of }]) => of)));
      await this.#follow(ucids);
      await this.#read(
        open.flatMap(([, { hashed }]) => hashed ?? []),
        new Set(open.flatMap(([, { frozen }]) => frozen ?? [])),
      );
      await this.#follow(ucids);
      const now = this.#inconsistencies(ucids);
      for (const [key, one] of open) {
        const same = now.get(key);
        if (same !== undefined && textOf(same) === textOf(one)) settled.add(textOf(one));
      }
    }
  }

  /** By the id of the document that has to be the same before and after its profile is read. */
  #inconsistencies(ucids: readonly string[]): ReadonlyMap<string, Inconsistency> {
    const open = new Map<string, Inconsistency>();
    for (const [hash, claim] of this.#identityClaims) {
      const identity = this.#identities.get(hash);
      if (claim === undefined || identity === undefined) continue;
      const root = this.rootOf(claim.ucid);
      if (root.kind !== 'profile' && root.kind !== 'deleted') continue;
      if (hasIdentity(root, { identity, hash })) continue;
      const id = identityClaimId(hash);
      open.set(id, {
        id,
        version: claim.stored.version,
        hashed: { identity, hash },
        of: [root.ucid],
      });
    }
    for (const ucid of this.#targets(ucids)) {
      const root = this.rootOf(ucid);
      if (root.kind !== 'profile' || root.document.state !== 'redirect') continue;
      const { stored, to } = root.document;
      const survivor = this.rootOf(to);
      const of = survivor.kind === 'profile' && survivor.ucid !== to ? [to, survivor.ucid] : [to];
      const id = profileId(root.ucid);
      open.set(id, { id, version: stored.version, frozen: root.ucid, of });
    }
    return open;
  }

  async #read(identities: readonly HashedIdentity[], profiles: ReadonlySet<string>): Promise<void> {
    const claims = new Set(identities.map(({ hash }) => hash));
    const ids = [...claims].map(identityClaimId);
    for (const ucid of profiles) ids.push(profileId(ucid));
    const found = await this.#documents.read(ids);
    let index = 0;
    for (const claim of claims) {
      const stored = found[index++];
      this.#identityClaims.set(claim, stored === undefined ? undefined : identityClaimOf(stored));
    }
    for (const ucid of profiles) this.#profiles.set(ucid, profileDocumentOf(found[index++]));
  }
}

/** A finding that may never have been true: the profiles `of` were read at another time than the document `id`. */
interface Inconsistency {
  readonly id: string;
  readonly version: DocumentVersion;
  /** Set if the document is an identity claim that leads to a profile without the identity. */
  readonly hashed?: HashedIdentity;
  /** Set if the document is a frozen profile that is not merged: its ucid. */
  readonly frozen?: string;
  /** The profiles that show it. */
  readonly of: readonly string[];
}

function textOf({ id, version: { seqNo, primaryTerm }, of }: Inconsistency): string {
  return [id, seqNo, primaryTerm, ...of].join(' ');
}

function hasIdentity(
  { document }: Extract<Root, { kind: 'profile' | 'deleted' }>,
  { identity, hash }: HashedIdentity,
): boolean {
  return document.state === 'deleted'
    ? document.tombstone.claims.includes(hash)
    : holds(document.content.profile, identity);
}

function changedWhileRead(): Unavailable {
  return new Unavailable('a profile is merged and split faster than it is read');
}

/** The documents of ucids as they were read; undefined for a ucid without one. */
type LoadedProfiles = ReadonlyMap<string, ProfileDocument | undefined>;

/** The end of the redirects from a ucid. */
export type Root =
  /** A profile: live, or frozen for a merge that has not happened. */
  | { readonly kind: 'profile'; readonly ucid: string; readonly document: LiveDocument | RedirectDocument }
  | { readonly kind: 'deleted'; readonly ucid: string; readonly document: DeletedDocument }
  /** No profile of the ucid has been written, or not yet. */
  | { readonly kind: 'absent'; readonly ucid: string }
  /** Deleted so long ago that nothing but redirects to it is left. */
  | { readonly kind: 'gone' }
  /** Unknown until this ucid is read too. */
  | { readonly kind: 'unread'; readonly ucid: string }
  /** `ucid` was read as merged into the profile `of`, which does not list it: they were read before and after a split. */
  | { readonly kind: 'torn'; readonly ucid: string; readonly of: string };

/**
 * Follows a ucid to its root. A merge has happened if, and only if, the profile that the ucid leads to lists it in
 * `linked`, which is written together with the merged data. Before that, and after a split, a redirect is a profile of its
 * own.
 */
function rootOf(ucid: string, loaded: LoadedProfiles): Root {
  if (!loaded.has(ucid)) return { kind: 'unread', ucid };
  const document = loaded.get(ucid);
  if (document === undefined) return { kind: 'absent', ucid };
  switch (document.state) {
    case 'live':
      return { kind: 'profile', ucid, document };
    case 'deleted':
      return { kind: 'deleted', ucid, document };
    case 'folded': {
      const next = rootOf(document.to, loaded);
      return next.kind === 'absent' ? { kind: 'gone' } : asListed(ucid, next);
    }
    case 'redirect':
      return mergedInto(ucid, document.to, loaded) ?? { kind: 'profile', ucid, document };
  }
}

/** The document of the root, where it is a profile of the scope. */
export function documentIn(
  root: Root | undefined,
  scope: ProfileScope,
): LiveDocument | RedirectDocument | undefined {
  return root?.kind === 'profile' && isInScope(root.document.content.profile, scope)
    ? root.document
    : undefined;
}

/** The profile that an identity leads to. A claim alone proves no ownership: its write may never have been committed. */
export function ownerIn(root: Root | undefined, identity: Identity): Profile | undefined {
  if (root?.kind !== 'profile') return undefined;
  const { profile } = root.document.content;
  return holds(profile, identity) ? profile : undefined;
}

/** The root that a frozen profile was merged into; undefined if its merge has not happened. */
function mergedInto(ucid: string, to: string, loaded: LoadedProfiles): Root | undefined {
  if (!loaded.has(to)) return { kind: 'unread', ucid: to };
  const next = loaded.get(to);
  if (next === undefined) return undefined;
  const root = next.state === 'folded' ? rootOf(to, loaded) : undefined;
  if (root?.kind === 'unread' || root?.kind === 'torn') return root;
  if (!linkedOf(root === undefined ? next : documentOf(root)).includes(ucid)) return undefined;
  return asListed(ucid, root ?? rootOf(to, loaded));
}

/** The root of a merged ucid; torn if it does not list the ucid. */
function asListed(ucid: string, root: Root): Root {
  if (root.kind !== 'profile' && root.kind !== 'deleted') return root;
  return linkedOf(root.document).includes(ucid) ? root : { kind: 'torn', ucid, of: root.ucid };
}

function documentOf(root: Root): ProfileDocument | undefined {
  return root.kind === 'profile' || root.kind === 'deleted' ? root.document : undefined;
}

function linkedOf(document: ProfileDocument | undefined): readonly string[] {
  if (document?.state === 'deleted') return document.tombstone.linked;
  return document === undefined || document.state === 'folded' ? [] : document.content.profile.linked;
}

/**
 * Whether the profile lists the identity, an email address raw or hashed. Only this list proves ownership, not a identity
 * claim.
 */
export function holds({ identities }: Profile, identity: Identity): boolean {
  const { type, value } = identity;
  if (identities.some((held) => held.type === type && held.value === value)) return true;
  const other = type === RAW_EMAIL ? HASHED_EMAIL : type === HASHED_EMAIL ? RAW_EMAIL : undefined;
  if (other === undefined || !identities.some((held) => held.type === other)) return false;
  const key = identityKey(identity);
  return identities.some((held) => held.type === other && identityKey(held) === key);
}

/** Ucids that identity claims were seen to lead to. An entry may be outdated: the profile decides. */
export interface CachedLocations {
  get(hash: string): string | undefined;
  set(hash: string, ucid: string): void;
  delete(hash: string): void;
}

/** A slot holds the tag of an identity's hash, which distinguishes hashes of the same set, and a ucid. */
const [TAG_BYTES, UCID_BYTES] = [8, 16];
const SLOT_BYTES = TAG_BYTES + UCID_BYTES;
/** Slots of a set. In a table that is half full 8 lose about 1 % of the entries, where 1 would lose about 20 %. */
const SLOTS_A_SET = 8;
/** The start of the hash, in base64url, gives its set and its tag. */
const [SET_BYTES, HASH_CHARACTERS] = [4, 16];

/**
 * A set-associative cache in one buffer: 24 bytes for each of millions of entries, no garbage to collect. When all slots
 * of a set are taken, a new entry replaces another. A wrong entry costs a read: it counts only if the profile lists the
 * identity.
 */
export class LocationTable implements CachedLocations {
  readonly #slots: Buffer;
  readonly #sets: number;
  /** Scratch space: the first bytes of the hash that is looked up. */
  readonly #sought = Buffer.alloc(SET_BYTES + TAG_BYTES);

  /** `count`: of entries. The memory is reserved, and taken as it is used. */
  constructor(count: number) {
    this.#sets = Math.ceil(count / SLOTS_A_SET);
    this.#slots = Buffer.alloc(this.#sets * SLOTS_A_SET * SLOT_BYTES);
  }

  get(hash: string): string | undefined {
    const at = this.#find(hash).found;
    if (at === undefined) return undefined;
    const hex = this.#slots.toString('hex', at + TAG_BYTES, at + SLOT_BYTES);
    return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
  }

  set(hash: string, ucid: string): void {
    if (!isUuid(ucid)) return;
    const { found, free } = this.#find(hash);
    const at = found ?? free;
    this.#sought.copy(this.#slots, at, SET_BYTES);
    this.#slots.write(ucid.replaceAll('-', ''), at + TAG_BYTES, 'hex');
  }

  delete(hash: string): void {
    const at = this.#find(hash).found;
    if (at !== undefined) this.#slots.fill(0, at, at + SLOT_BYTES);
  }

  /**
   * The slot of the hash, if it has one, and the slot that it would get: an empty one, else one chosen by its tag.
   * Any part of a hash is uniformly distributed, and no tag is zero as that of an empty slot.
   */
  #find(hash: string): { readonly found: number | undefined; readonly free: number } {
    const [slots, sought] = [this.#slots, this.#sought];
    sought.write(hash.slice(0, HASH_CHARACTERS), 'base64url');
    const [low, high] = [sought.readUInt32LE(SET_BYTES), sought.readUInt32LE(SET_BYTES + 4)];
    const first = (sought.readUInt32LE(0) % this.#sets) * SLOTS_A_SET * SLOT_BYTES;
    let empty: number | undefined;
    for (let slot = 0; slot < SLOTS_A_SET; slot++) {
      const at = first + slot * SLOT_BYTES;
      const [tagLow, tagHigh] = [slots.readUInt32LE(at), slots.readUInt32LE(at + 4)];
      if (tagLow === low && tagHigh === high) return { found: at, free: at };
      if (tagLow === 0 && tagHigh === 0) empty ??= at;
    }
    return { found: undefined, free: empty ?? first + (low % SLOTS_A_SET) * SLOT_BYTES };
  }
}
