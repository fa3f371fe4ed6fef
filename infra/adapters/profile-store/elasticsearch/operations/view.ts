import {
  HASHED_EMAIL,
  type Identity,
  identityKey,
  type Profile,
  RAW_EMAIL,
  Unavailable,
} from '@tributary/core';
import {
  type DeletedDocument,
  type Documents,
  type DocumentVersion,
  type IdentityClaim,
  identityClaimId,
  identityClaimOf,
  type LiveDocument,
  type ProfileDocument,
  profileDocumentOf,
  profileId,
  type RedirectDocument,
} from '../documents.ts';
import type { CachedLocations } from './cached-locations.ts';

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
export type LoadedProfiles = ReadonlyMap<string, ProfileDocument | undefined>;

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
export function rootOf(ucid: string, loaded: LoadedProfiles): Root {
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
