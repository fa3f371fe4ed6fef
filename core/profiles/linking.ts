import { identityHash, identityKey } from './identity/identity.ts';
import { DEFAULT_LIMITS, IdentityCounts, PERSON } from './identity/identity-limits.ts';
import type { Identity, Profile } from './profile.ts';
import type { LeftOut, OlderSpelling, ProfileWrite, ProfileWriteOutcome } from './profile-store.ts';
import { compareText } from './registers.ts';
import { isSetAside, sharedByMerge, unknownClaimant } from './shared-identities.ts';

/** Who has an identity, as a store found it. One that is claimed for a profile not yet made is had by a fresh one. */
export type IdentityOwner =
  | { readonly kind: 'nobody' }
  | {
      readonly kind: 'live';
      readonly profile: Profile;
      /** When another profile was deleted that had it before, epoch ms, as long as that is remembered. */
      readonly deletedAt?: number | undefined;
    }
  /** By a profile that was deleted at this time, epoch ms. */
  | { readonly kind: 'deleted'; readonly at: number };

export interface FoundOwners {
  /** Of the write's identities, by their place. One profile is one object or not: ucids tell. */
  readonly owners: readonly IdentityOwner[];
  /** The live profile that the write's `ucid` leads to. `gone`: there is none in the write's scope. */
  readonly named?: Profile | 'gone' | undefined;
}

/** Which profiles a write makes one, and which of its identities that one gets. */
export type Linking =
  | {
      readonly kind: 'linked';
      /** The master first, then by ucid. None: the write makes a new profile. */
      readonly profiles: readonly Profile[];
      readonly identities: readonly Identity[];
      readonly leftOut: readonly LeftOut[];
    }
  | Extract<ProfileWriteOutcome, { kind: 'refused' }>;

/**
 * The write with who its user was: `owners` are those of its identities, `former` that of the former `user_id`. Whom a
 * `user_id` has made a person is found by it; anything else is a device, as aliases mostly name, and made a person it
 * would join all who ever used it. Who was deleted after what the write tells of was a person as well: the user, unless
 * that is somebody known, is them.
 */
export function withFormer(
  write: ProfileWrite,
  owners: readonly IdentityOwner[],
  former: IdentityOwner,
): ProfileWrite {
  const { previousIdentity, ...rest } = write;
  if (previousIdentity === undefined) return write;
  const { asUser, asDevice } = previousIdentity;
  if (former.kind === 'live') return { ...rest, identities: [...write.identities, asUser] };
  if (!wasDeletedAfter(write, former)) return { ...rest, identities: [...write.identities, asDevice] };
  const isKnown = write.identities.some(({ type }, at) => type === PERSON && owners[at]?.kind === 'live');
  return isKnown ? rest : { ...rest, identities: [...write.identities, asUser] };
}

/** All identities that a store looks up for a write: its own, each behind its older spellings, then a former one's forms. */
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
 * The write with the identities that it is about, by the owners of its `identitiesToLookUp`: an older spelling is one of them
 * where a profile has it, or was deleted with it after what the write tells of. They stay in the order they are sought in.
 */
export function resolveIdentities(write: ProfileWrite, owners: readonly IdentityOwner[]): ProfileWrite {
  const { identities, olderSpellings, previousIdentity } = write;
  if (olderSpellings === undefined && previousIdentity === undefined) return write;
  const sought = identitiesToLookUp(write);
  const count = previousIdentity === undefined ? sought.length : sought.length - 2;
  const own = new Set(identities);
  const known = sought.slice(0, count).flatMap((identity, at) => {
    const owner = owners[at] ?? { kind: 'nobody' };
    const isKnown = own.has(identity) || owner.kind === 'live' || wasDeletedAfter(write, owner);
    return isKnown ? [{ identity, owner }] : [];
  });
  return withFormer(
    { ...write, identities: known.map(({ identity }) => identity) },
    known.map(({ owner }) => owner),
    owners[count] ?? { kind: 'nobody' },
  );
}

function olderSpellingsOf(olderSpellings: readonly OlderSpelling[], one: Identity): readonly Identity[] {
  return olderSpellings.flatMap(({ of, identity }) =>
    of.type === one.type && of.value === one.value ? [identity] : [],
  );
}

/** Decides whom a write is about. `merge`: everybody found is one. `keep-people-apart`: as `ProfileWrite` says. */
export function linkingOf(write: ProfileWrite, { owners, named }: FoundOwners): Linking {
  if (named === 'gone') return { kind: 'refused', reason: 'unknown_ucid' };
  if (write.claimedBy !== undefined) return ownerAlone(owners[0]);
  if (isOfSomebodyDeleted(write, owners)) return { kind: 'refused', reason: 'nothing_left' };
  if (write.linking === 'merge') {
    const shared = sharedByMerge(write, liveOwners(owners), named);
    if (shared !== undefined) return { kind: 'refused', reason: 'shared_identity', ...shared };
  }
  const circle = new Circle(write, named);
  const identities: Identity[] = [];
  const leftOut: LeftOut[] = [];
  for (const [at, identity] of write.identities.entries()) {
    const why =
      spellingLeftOut(write, identity, leftOut) ?? circle.admit(identity, owners[at] ?? { kind: 'nobody' });
    if (why === 'admitted') identities.push(identity);
    else leftOut.push({ identity, why, ...detailsOf(write, identity, why, owners[at]) });
  }
  const tooMany = leftOut.some(({ why }) => why === 'too_many');
  if (write.linking === 'merge' && tooMany) return { kind: 'refused', reason: 'too_many_identities' };
  if (identities.length === 0 && named === undefined)
    return { kind: 'refused', reason: tooMany ? 'too_many_identities' : 'nothing_left' };
  return { kind: 'linked', profiles: circle.profiles(), identities, leftOut };
}

/** Why an older spelling of the identity was left out: then so is the identity, which is the same person's. */
function spellingLeftOut(
  { olderSpellings }: ProfileWrite,
  identity: Identity,
  leftOut: readonly LeftOut[],
): LeftOut['why'] | undefined {
  if (olderSpellings === undefined || leftOut.length === 0) return undefined;
  const older = olderSpellingsOf(olderSpellings, identity);
  return leftOut.find((left) => older.includes(left.identity))?.why;
}

/** Identities of a write that its profile did not get; `dropped`: those that it had no room for, as others are newer. */
export function leftOutOf(
  { leftOut }: Pick<Extract<Linking, { kind: 'linked' }>, 'leftOut'>,
  { identities }: Pick<ProfileWrite, 'identities'>,
  dropped: readonly Identity[],
): readonly LeftOut[] {
  if (dropped.length === 0) return leftOut;
  const keys = new Set(dropped.map(identityKey));
  const old = identities.filter((identity) => keys.has(identityKey(identity)));
  return [...leftOut, ...old.map((identity) => ({ identity, why: 'too_many' as const }))];
}

/** A claim on an identity is written to the profile that has it, and makes none. */
function ownerAlone(owner: IdentityOwner | undefined): Linking {
  return owner?.kind === 'live'
    ? { kind: 'linked', profiles: [owner.profile], identities: [], leftOut: [] }
    : { kind: 'refused', reason: 'nothing_left' };
}

function liveOwners(owners: readonly IdentityOwner[]): readonly (Profile | undefined)[] {
  return owners.map((owner) => (owner.kind === 'live' ? owner.profile : undefined));
}

/** Of an identity that stays with its owner: the user that the owner is to remember, or the ucid of the owner. */
function detailsOf(
  write: ProfileWrite,
  identity: Identity,
  why: LeftOut['why'],
  owner: IdentityOwner | undefined,
): Pick<LeftOut, 'claimant' | 'owner'> {
  if (owner?.kind !== 'live') return {};
  if (why === 'shared') return { owner: owner.profile.ucid };
  if (why !== 'another_person') return {};
  const claimant = unknownClaimant(write, identity, owner.profile);
  return claimant === undefined ? {} : { claimant };
}

/** The profiles that a write has joined so far. */
class Circle {
  readonly #write: ProfileWrite;
  readonly #members = new Map<string, Profile>();
  /** Identities of the write that it gets and no member had. */
  readonly #added: Identity[] = [];
  /** The person the write itself is about, by all the names it has for them; whoever is another is kept apart. */
  readonly #person: ReadonlySet<string>;
  #hasPerson = false;
  #hasUnlinked = false;
  readonly #counts: IdentityCounts;

  constructor(write: ProfileWrite, named: Profile | undefined) {
    this.#write = write;
    this.#counts = new IdentityCounts(write.limits ?? DEFAULT_LIMITS);
    this.#person = new Set(write.identities.filter(({ type }) => type === PERSON).map(({ value }) => value));
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
    if (this.#write.linking === 'keep-people-apart' && this.#isAnother(profile, identity))
      return isSetAside(profile, identity, this.#write.limits) ? 'shared' : 'another_person';
    if (this.#write.linking === 'keep-people-apart' && isSetAside(profile, identity, this.#write.limits))
      return 'shared';
    if (this.#isBlocked(identity, profile)) return 'unlinked';
    if (!this.#counts.hasRoomFor(identitiesOf(profile, identity))) return 'too_many';
    this.#join(profile, identity);
    return 'admitted';
  }

  profiles(): readonly Profile[] {
    return [...this.#members.values()].sort((a, b) => compareText(a.ucid, b.ucid));
  }

  /**
   * Whether an event would bring together what an unlink took apart: a member, or the profile that is to join, and an
   * identity that was taken away from it.
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

  #isAnother(profile: Profile, { type, value }: Identity): boolean {
    const persons = profile.identities.filter((identity) => identity.type === PERSON);
    if (persons.length === 0) return false;
    if (this.#hasPerson) return true;
    // Claimed for a profile that does not list it yet, the write's own person is where the claim leads to.
    if (this.#person.size === 0 || (type === PERSON && this.#person.has(value))) return false;
    return !persons.some((person) => this.#person.has(person.value));
  }

  #join(profile: Profile, identity?: Identity): void {
    this.#members.set(profile.ucid, profile);
    this.#counts.add(identity === undefined ? profile.identities : identitiesOf(profile, identity));
    this.#hasUnlinked ||= profile.unlinked !== undefined;
    this.#hasPerson ||= profile.identities.some(({ type }) => type === PERSON);
  }
}

/** Every identity has one owner, so the numbers of profiles add up. One that its profile does not list yet comes on top. */
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
 * Whether an event is about a person who was deleted after it: what it says is theirs and belongs to nobody else, not to
 * whom it shares a device with either. Of an event without a `user_id` anybody deleted may be the one.
 */
function isOfSomebodyDeleted(write: ProfileWrite, owners: readonly IdentityOwner[]): boolean {
  if (write.linking === 'merge') return false;
  const hasPerson = write.identities.some(({ type }) => type === PERSON);
  return write.identities.some(
    ({ type }, at) => (type === PERSON || !hasPerson) && wasDeletedAfter(write, owners[at]),
  );
}

/** What was deleted in the millisecond of the data counts as deleted after it. */
function wasDeletedAfter({ happenedAt }: ProfileWrite, owner: IdentityOwner | undefined): boolean {
  const at = owner?.kind === 'deleted' ? owner.at : owner?.kind === 'live' ? owner.deletedAt : undefined;
  return at !== undefined && happenedAt !== undefined && happenedAt <= at;
}
