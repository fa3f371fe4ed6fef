import { identityHash } from './identity/identity.ts';
import { DEFAULT_LIMITS, IdentityCounts, PERSON } from './identity/identity-limits.ts';
import {
  aliasOf,
  hasAlias,
  isSetAside,
  type Relinking,
  relink,
  sharedByMerge,
  takenByAlias,
  unknownClaimant,
} from './links.ts';
import { mergeContent } from './merge.ts';
import type { HeldIdentity, Identity, Profile } from './profile.ts';
import { DEFAULT_PROFILE_BOUNDS, fitsMerged } from './profile-bounds.ts';
import type { LeftOut, OlderSpelling, ProfileWrite, ProfileWriteOutcome } from './profile-store.ts';
import { compareText } from './registers.ts';

/**
 * The owner of an identity, as a store found it. An identity that is claimed for a profile that is not stored yet is
 * owned by a fresh profile.
 */
export type IdentityOwner =
  | { readonly kind: 'unowned' }
  | {
      readonly kind: 'live';
      readonly profile: Profile;
      /** When an earlier owner was deleted, epoch ms, while that is remembered. */
      readonly deletedAt?: number | undefined;
    }
  /** The owner was deleted at this time, epoch ms. */
  | { readonly kind: 'deleted'; readonly at: number };

export interface FoundOwners {
  /** The owners of the write's identities, by index. The same profile may be several objects: compare ucids. */
  readonly owners: readonly IdentityOwner[];
  /** The live profile that the write's `ucid` leads to; `gone` where the scope has none. */
  readonly named?: Profile | 'gone' | undefined;
}

/** The profiles that a write merges, and the identities of the write that the result gets. */
export type Linking =
  | {
      readonly kind: 'linked';
      /** Sorted by ucid, so the survivor is first. Empty: the write creates a profile. */
      readonly profiles: readonly Profile[];
      readonly identities: readonly Identity[];
      readonly leftOut: readonly LeftOut[];
    }
  /** An event shows that these identities of the profile are somebody else's: take them out, then link again. */
  | { readonly kind: 'detach'; readonly profile: Profile; readonly identities: readonly HeldIdentity[] }
  | Extract<ProfileWriteOutcome, { kind: 'refused' }>;

/**
 * Adds the previous id of an alias to the identities: as a `user_id`, which records do not show until an event or a call is
 * about it, and as a device id, which aliases mostly contain. `owners` are those of the write's identities, `former` that of
 * the previous id as a `user_id`; where it was deleted after the event, the id is left out, or the event is not written at
 * all because its own user has no profile.
 */
function resolvePreviousId(
  write: ProfileWrite,
  owners: readonly IdentityOwner[],
  former: IdentityOwner,
): ProfileWrite {
  const { previousIdentity, ...rest } = write;
  if (previousIdentity === undefined) return write;
  const { asUser, asDevice } = previousIdentity;
  if (!wasDeletedAfter(write, former))
    return { ...rest, identities: [...write.identities, asUser, asDevice] };
  const isKnown = write.identities.some(({ type }, at) => type === PERSON && owners[at]?.kind === 'live');
  return isKnown ? rest : { ...rest, identities: [...write.identities, asUser] };
}

/**
 * All identities that a store looks up for a write: its own, each after its older spellings, then both forms of a
 * previous id.
 */
export function identitiesToLookUp({
  identities,
  olderSpellings,
  previousIdentity,
}: ProfileWrite): readonly Identity[] {
  const own =
    olderSpellings === undefined
      ? identities
      : identities.flatMap((one) => [...olderSpellingsOf(olderSpellings, one), one]);
  return previousIdentity === undefined ? own : [...own, previousIdentity.asUser, previousIdentity.asDevice];
}

/**
 * Resolves older spellings and the previous id, by the owners of `identitiesToLookUp`: an older spelling is added
 * where a profile has it, or was deleted with it after the event. The order is that of the look-up.
 */
export function resolveIdentities(write: ProfileWrite, owners: readonly IdentityOwner[]): ProfileWrite {
  const { identities, olderSpellings, previousIdentity } = write;
  if (olderSpellings === undefined && previousIdentity === undefined) return write;
  const sought = identitiesToLookUp(write);
  const count = previousIdentity === undefined ? sought.length : sought.length - 2;
  const own = new Set(identities);
  const known = sought.slice(0, count).flatMap((identity, at) => {
    const owner = owners[at] ?? { kind: 'unowned' };
    const isKnown = own.has(identity) || owner.kind === 'live' || wasDeletedAfter(write, owner);
    return isKnown ? [{ identity, owner }] : [];
  });
  return resolvePreviousId(
    { ...write, identities: known.map(({ identity }) => identity) },
    known.map(({ owner }) => owner),
    owners[count] ?? { kind: 'unowned' },
  );
}

function olderSpellingsOf(olderSpellings: readonly OlderSpelling[], one: Identity): readonly Identity[] {
  return olderSpellings.flatMap(({ of, identity }) =>
    of.type === one.type && of.value === one.value ? [identity] : [],
  );
}

/**
 * Decides which profiles a write is about: with `merge` all owners are merged; `keep-people-apart` see
 * `ProfileWrite`.
 */
export function linkingOf(write: ProfileWrite, { owners, named }: FoundOwners): Linking {
  if (named === 'gone') return { kind: 'refused', reason: 'unknown_ucid' };
  if (write.claimedBy !== undefined) return claimLinking(write, write.claimedBy, owners[0]);
  if (isOfSomebodyDeleted(write, owners)) return { kind: 'refused', reason: 'nothing_left' };
  if (write.linking === 'merge') {
    const shared = sharedByMerge(write, liveOwners(owners), named);
    if (shared !== undefined) return { kind: 'refused', reason: 'shared_identity', ...shared };
  }
  const relinking = relinkingOf(write, owners);
  if (relinking.kind === 'detach') return relinking;
  const merged = new MergeSet(write, named, relinking.apart);
  const identities: Identity[] = [];
  const leftOut: LeftOut[] = [];
  for (const [at, identity] of write.identities.entries()) {
    const why =
      spellingLeftOut(write, identity, leftOut) ?? merged.admit(identity, owners[at] ?? { kind: 'unowned' });
    if (why === 'admitted') identities.push(identity);
    else leftOut.push({ identity, why, ...detailsOf(write, identity, why, owners[at]) });
  }
  const tooMany = leftOut.some(({ why }) => why === 'too_many');
  if (write.linking === 'merge' && tooMany) return { kind: 'refused', reason: 'too_many_identities' };
  if (identities.length === 0 && named === undefined)
    return { kind: 'refused', reason: tooMany ? 'too_many_identities' : 'nothing_left' };
  return { kind: 'linked', profiles: merged.profiles(), identities, leftOut };
}

/** The reason why an older spelling of the identity was left out; the identity is then left out too. */
function spellingLeftOut(
  { olderSpellings }: ProfileWrite,
  identity: Identity,
  leftOut: readonly LeftOut[],
): LeftOut['why'] | undefined {
  if (olderSpellings === undefined || leftOut.length === 0) return undefined;
  const older = olderSpellingsOf(olderSpellings, identity);
  return leftOut.find((left) => older.includes(left.identity))?.why;
}

/**
 * A competing claim is written to the identity's owner and never creates a profile. The first alias of a previous id parts it
 * from the user of a later one.
 */
function claimLinking(write: ProfileWrite, claimant: string, owner: IdentityOwner | undefined): Linking {
  if (owner?.kind !== 'live') return { kind: 'refused', reason: 'nothing_left' };
  const { profile } = owner;
  const [previous] = write.identities;
  const identities =
    previous?.type === PERSON && hasAlias(profile)
      ? takenByAlias(profile, previous, aliasOf(write, claimant))
      : [];
  return identities.length > 0
    ? { kind: 'detach', profile, identities }
    : { kind: 'linked', profiles: [profile], identities: [], leftOut: [] };
}

function liveOwners(owners: readonly IdentityOwner[]): readonly (Profile | undefined)[] {
  return owners.map((owner) => (owner.kind === 'live' ? owner.profile : undefined));
}

/** Details of an identity that stays with its owner: the user that the owner should record, or the owner's ucid. */
function detailsOf(
  write: ProfileWrite,
  identity: Identity,
  why: LeftOut['why'],
  owner: IdentityOwner | undefined,
): Pick<LeftOut, 'claimant' | 'owner'> {
  if (owner?.kind !== 'live') return {};
  if (why === 'shared' || why === 'too_large') return { owner: owner.profile.ucid };
  if (why !== 'another_person') return {};
  const claimant = unknownClaimant(write, identity, owner.profile);
  return claimant === undefined ? {} : { claimant };
}

const NOTHING_APART = { kind: 'linked', apart: new Set<Identity>() } as const;

/** Follows the links of an event. What may not be linked whatever the times, is no link. */
function relinkingOf(write: ProfileWrite, owners: readonly IdentityOwner[]): Relinking {
  if (write.linking === 'merge' || isOfOneProfile(write, owners)) return NOTHING_APART;
  const profiles = new Map<string, Profile>();
  const [principal, ...others] = write.identities.map((identity, at) => {
    const found = owners[at];
    if (found?.kind !== 'live') return { identity, found, owner: undefined };
    const owner = profiles.get(found.profile.ucid) ?? found.profile;
    profiles.set(owner.ucid, owner);
    return { identity, found, owner };
  });
  if (principal === undefined) return NOTHING_APART;
  const named = others.filter(({ identity, found, owner }) => {
    if (wasDeletedAfter(write, found)) return false;
    if (owner === undefined || owner.ucid === principal.owner?.ucid) return true;
    return (
      !isSetAside(owner, identity, write.limits) && !areUnlinked(owner, principal.owner, principal.identity)
    );
  });
  // Without a time it happens now, after all others.
  return relink(write, principal, named, {
    ts: write.ts ?? Number.MAX_SAFE_INTEGER,
    order: write.order ?? 0,
  });
}

/** Nearly every event: all its identities have the same owner or none yet, and no alias matters. */
function isOfOneProfile({ identities }: ProfileWrite, [first, ...others]: readonly IdentityOwner[]): boolean {
  const owner = first?.kind === 'live' ? first.profile : undefined;
  if (owner !== undefined && identities[0]?.type === PERSON && hasAlias(owner)) return false;
  return others.every(
    (other, at) =>
      identities[at + 1]?.type !== PERSON && (other.kind !== 'live' || other.profile.ucid === owner?.ucid),
  );
}

function areUnlinked(one: Profile, other: Profile | undefined, identity: Identity): boolean {
  return (
    isUnlinkedFrom(one, other?.identities ?? [identity]) ||
    (other !== undefined && isUnlinkedFrom(other, one.identities))
  );
}

/** The profiles that a write merges, collected identity by identity. */
class MergeSet {
  readonly #write: ProfileWrite;
  readonly #members = new Map<string, Profile>();
  /** Admitted identities without an owner. */
  readonly #added: Identity[] = [];
  /** Identities of an event that belong to somebody else. */
  readonly #apart: ReadonlySet<Identity>;
  #hasUnlinked = false;
  readonly #counts: IdentityCounts;

  constructor(write: ProfileWrite, named: Profile | undefined, apart: ReadonlySet<Identity>) {
    this.#write = write;
    this.#apart = apart;
    this.#counts = new IdentityCounts(write.limits ?? DEFAULT_LIMITS);
    if (named !== undefined) this.#join(named);
  }

  admit(identity: Identity, owner: IdentityOwner): 'admitted' | LeftOut['why'] {
    if (wasDeletedAfter(this.#write, owner)) return 'deleted';
    if (owner.kind !== 'live') {
      if (this.#isBlocked(identity, undefined)) return 'unlinked';
      if (!this.#counts.hasRoomFor([identity])) return 'too_many';
      this.#counts.add([identity]);
      this.#added.push(identity);
      return 'admitted';
    }
    const { profile } = owner;
    if (this.#members.has(profile.ucid)) return 'admitted';
    if (this.#apart.has(identity))
      return isSetAside(profile, identity, this.#write.limits) ? 'shared' : 'another_person';
    if (this.#write.linking === 'keep-people-apart' && isSetAside(profile, identity, this.#write.limits))
      return 'shared';
    if (this.#isBlocked(identity, profile)) return 'unlinked';
    if (!this.#counts.hasRoomFor(identitiesOf(profile, identity))) return 'too_many';
    if (this.#write.linking === 'keep-people-apart' && !this.#fits(profile)) return 'too_large';
    this.#join(profile, identity);
    return 'admitted';
  }

  /** Whether the members and this profile are within the bounds as one profile. */
  #fits(profile: Profile): boolean {
    if (this.#members.size === 0) return true;
    const all = [...this.#members.values(), profile];
    const merged = () => all.reduce((one, other) => mergeContent(one, other));
    return fitsMerged(all, merged, this.#write.bounds ?? DEFAULT_PROFILE_BOUNDS);
  }

  profiles(): readonly Profile[] {
    return [...this.#members.values()].sort((a, b) => compareText(a.ucid, b.ucid));
  }

  /**
   * Whether an event would link an identity to a profile from which it was unlinked: to a member, or to the profile
   * that is about to join.
   */
  #isBlocked(identity: Identity, profile: Profile | undefined): boolean {
    if (this.#write.linking === 'merge') return false;
    if (!this.#hasUnlinked && profile?.unlinked === undefined) return false;
    const members = [...this.#members.values()];
    const theirs = [identity, ...(profile?.identities ?? [])];
    return (
      members.some((member) => isUnlinkedFrom(member, theirs)) ||
      (profile !== undefined &&
        isUnlinkedFrom(profile, [...this.#added, ...members.flatMap((member) => member.identities)]))
    );
  }

  #join(profile: Profile, identity?: Identity): void {
    this.#members.set(profile.ucid, profile);
    this.#counts.add(identity === undefined ? profile.identities : identitiesOf(profile, identity));
    this.#hasUnlinked ||= profile.unlinked !== undefined;
  }
}

/**
 * Each identity has one owner, so the counts of profiles can be added. An identity that its profile does not list yet
 * is counted on top.
 */
function identitiesOf({ identities }: Profile, identity: Identity): readonly Identity[] {
  return identities.length === 0 ? [identity] : identities;
}

function isUnlinkedFrom(profile: Profile, identities: readonly Identity[]): boolean {
  const { unlinked } = profile;
  if (unlinked === undefined) return false;
  const hashes = new Set(unlinked.map(({ hash }) => hash));
  return identities.some((identity) => hashes.has(identityHash(profile, identity)));
}

/**
 * Whether an event is about a person who was deleted after it. Then nothing of it is written, not to other owners of
 * its devices either. An event without `user_id` may be about any deleted owner.
 */
function isOfSomebodyDeleted(write: ProfileWrite, owners: readonly IdentityOwner[]): boolean {
  if (write.linking === 'merge') return false;
  const hasPerson = write.identities.some(({ type }) => type === PERSON);
  return write.identities.some(
    ({ type }, at) => (type === PERSON || !hasPerson) && wasDeletedAfter(write, owners[at]),
  );
}

/** A deletion in the same millisecond counts as later. */
function wasDeletedAfter({ happenedAt }: ProfileWrite, owner: IdentityOwner | undefined): boolean {
  const at = owner?.kind === 'deleted' ? owner.at : owner?.kind === 'live' ? owner.deletedAt : undefined;
  return at !== undefined && happenedAt !== undefined && happenedAt <= at;
}
