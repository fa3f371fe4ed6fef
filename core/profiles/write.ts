import { identityHash, identityKey } from './identity/identity.ts';
import {
  DEFAULT_LIMITS,
  IdentityCounts,
  isTooMany,
  PERSON,
  withoutOldest,
} from './identity/identity-limits.ts';
import {
  aliasOf,
  hasAlias,
  hasUser,
  isRef,
  isSetAside,
  type Relinking,
  refOf,
  relink,
  sameIdentity,
  sharedByMerge,
  takenByAlias,
  unknownClaimant,
  unpinned,
  withClaim,
  withNamed,
  withoutShared,
} from './links.ts';
import {
  changeOf,
  freshProfile,
  joinIdentities,
  mergeContent,
  withContent,
  withHidden,
  withNextVersion,
  withoutLiftedBlocks,
} from './merge.ts';
import {
  type HeldIdentity,
  type Identity,
  LEAST_REGISTER_BYTES,
  MAX_PROFILE_BYTES,
  type NamedElsewhere,
  type Profile,
  type Register,
} from './profile.ts';
import {
  DEFAULT_PROFILE_BOUNDS,
  exceedsBytes,
  excessOf,
  fitsMerged,
  type ProfileExcess,
  valuesOf,
  withRoom,
} from './profile-bounds.ts';
import type {
  LeftOut,
  OlderSpelling,
  ProfileChange,
  ProfileWrite,
  ProfileWriteOutcome,
} from './profile-store.ts';
import {
  compareText,
  joinValues,
  keptIfSame,
  stampAttributes,
  stampNamed,
  withoutOrigins,
} from './registers.ts';
import { type TakenPart, takePart } from './unlink-split.ts';

/** The decision about a write. */
type WriteDecision =
  | {
      readonly kind: 'write';
      /** The profiles that it merges, see `Linking`. Empty: it creates one. */
      readonly profiles: readonly Profile[];
      /** The identities of the write that were linked, and those of them that the profile has afterwards. */
      readonly linked: readonly Identity[];
      readonly held: readonly Identity[];
      readonly leftOut: readonly LeftOut[];
      readonly applied: Exclude<AppliedWrite, { kind: 'refused' }>;
    }
  /** An event shows that a part of the profile is somebody else's: split it off, then decide again. */
  | ({ readonly kind: 'detach'; readonly profile: Profile } & TakenPart)
  | Extract<Linking, { kind: 'refused' }>;

/**
 * Decides a write, for every store alike. `found.owners`: those of its `identitiesToLookUp`. `newUcid`: of the profile, if the
 * write creates one with these identities, or takes a part out of one.
 */
export function decideWrite(
  asked: ProfileWrite,
  found: FoundOwners,
  now: number,
  newUcid: (linked: readonly Identity[]) => string,
): WriteDecision {
  const { write, owners } = resolveIdentities(asked, found.owners);
  const linking = linkingOf(write, { ...found, owners });
  if (linking.kind === 'refused') return linking;
  if (linking.kind === 'detach') {
    const { profile, identities } = linking;
    const taken = takePart(profile, identities, newUcid([]), now, 'event');
    if (taken === undefined) throw new TypeError('a part of a profile cannot be split off');
    return { kind: 'detach', profile, ...taken };
  }
  const { profiles, identities: linked, leftOut } = linking;
  const [survivor = freshProfile(write, newUcid(linked), now), ...others] = profiles;
  const applied = applyWrite([survivor, ...others], linked, write, now, leftOut);
  if (applied.kind === 'refused') return applied;
  const dropped = new Set(applied.dropped.map(identityKey));
  if (dropped.size === 0) return { kind: 'write', profiles, linked, held: linked, leftOut, applied };
  const isDropped = (identity: Identity) => dropped.has(identityKey(identity));
  const tooMany = write.identities
    .filter(isDropped)
    .map((identity) => ({ identity, why: 'too_many' as const }));
  return {
    kind: 'write',
    profiles,
    linked,
    held: linked.filter((identity) => !isDropped(identity)),
    leftOut: [...leftOut, ...tooMany],
    applied,
  };
}

/** The owner of an identity, as a store found it: a live one lists the identity. */
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

interface FoundOwners {
  /** The owners of the identities, by index. The same profile may be several objects: compare ucids. */
  readonly owners: readonly IdentityOwner[];
  /** The live profile that the write's `ucid` leads to; `gone` where the scope has none. */
  readonly named?: Profile | 'gone' | undefined;
}

/** The profiles that a write merges, and the identities of the write that the result gets. */
type Linking =
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
 * The write with what the owners of `identitiesToLookUp` show, and the owners of its identities then. An older spelling is
 * added where a profile has it, or was deleted with it after the event.
 *
 * The previous id of an alias is added as a `user_id`, which records do not show until an event or a call is about it, and as
 * a device id, which aliases mostly contain. Where it was deleted as a user after the event it is left out, or the event is
 * not written at all because its own user has no profile.
 */
function resolveIdentities(write: ProfileWrite, owners: readonly IdentityOwner[]): Resolved {
  const { olderSpellings, previousIdentity, ...rest } = write;
  if (olderSpellings === undefined && previousIdentity === undefined) return { write, owners };
  const sought = identitiesToLookUp(write).map((identity, at) => ({
    identity,
    owner: owners[at] ?? ({ kind: 'unowned' } as const),
  }));
  const previous = previousIdentity === undefined ? [] : sought.splice(-2);
  const own = new Set(write.identities);
  const known = sought.filter(
    ({ identity, owner }) => own.has(identity) || owner.kind === 'live' || wasDeletedAfter(write, owner),
  );
  const [asUser] = previous;
  const isGone = asUser !== undefined && wasDeletedAfter(write, asUser.owner);
  const isKnown = known.some(({ identity: { type }, owner }) => type === PERSON && owner.kind === 'live');
  const all = [...known, ...(!isGone ? previous : isKnown ? [] : [asUser])];
  return {
    write: {
      ...rest,
      ...(olderSpellings === undefined ? {} : { olderSpellings }),
      identities: all.map(({ identity }) => identity),
    },
    owners: all.map(({ owner }) => owner),
  };
}

interface Resolved {
  readonly write: ProfileWrite;
  /** Of the write's identities, by index. */
  readonly owners: readonly IdentityOwner[];
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

/** Follows the links of an event. Identities that may not be linked whatever the times, make no link. */
function relinkingOf(write: ProfileWrite, owners: readonly IdentityOwner[]): Relinking {
  if (write.linking === 'merge') return NOTHING_APART;
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
    if (this.#write.linking === 'keep-people-apart' && isSetAside(profile, identity, this.#write.limits))
      return 'shared';
    if (this.#apart.has(identity)) return 'another_person';
    if (this.#isBlocked(identity, profile)) return 'unlinked';
    // Each identity has one owner, so the counts of profiles can be added.
    if (!this.#counts.hasRoomFor(profile.identities)) return 'too_many';
    if (this.#write.linking === 'keep-people-apart' && !this.#fits(profile)) return 'too_large';
    this.#join(profile);
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

  #join(profile: Profile): void {
    this.#members.set(profile.ucid, profile);
    this.#counts.add(profile.identities);
    this.#hasUnlinked ||= profile.unlinked !== undefined;
  }
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

/**
 * `dropped`: identities of the profiles and of the write that are too old to fit into the profile; they have no owner
 * afterwards.
 */
export type AppliedWrite =
  | {
      readonly kind: 'changed';
      readonly profile: Profile;
      /** The JSON of `profile`. */
      readonly text: string;
      readonly change: ProfileChange;
      readonly dropped: readonly Identity[];
    }
  /** The unchanged profile: it already had these values or newer ones. */
  | { readonly kind: 'unchanged'; readonly profile: Profile; readonly dropped: readonly Identity[] }
  | { readonly kind: 'refused'; readonly reason: 'too_many_identities' }
  | { readonly kind: 'refused'; readonly reason: 'too_large'; readonly excess: ProfileExcess };

/**
 * Applies a write: merges the other profiles into the first, then writes the values. `profiles` are those of
 * `linkingOf`, or a `freshProfile`; `identities` those that `linkingOf` admitted, `leftOut` the others.
 */
export function applyWrite(
  profilesFound: readonly [Profile, ...Profile[]],
  identities: readonly Identity[],
  write: ProfileWrite,
  now: number,
  leftOut: readonly LeftOut[] = [],
): AppliedWrite {
  const [survivor, ...others] = profilesFound;
  const { bounds = DEFAULT_PROFILE_BOUNDS } = write;
  const profiles = [survivor, ...others];
  const excessive = tooManyValues(write);
  if (excessive !== undefined) return { kind: 'refused', reason: 'too_large', excess: excessive };
  const role = roleOf(write, identities, profilesFound);
  let [merged, ...joining] = role.parted;
  for (const other of joining) {
    merged = mergeContent(merged, other);
    const excess = tooManyValues(merged);
    if (excess !== undefined) return { kind: 'refused', reason: 'too_large', excess };
  }
  const { after, dropped } = withWrite(
    merged,
    { identities, leftOut, role, isOne: others.length === 0 },
    write,
    now,
  );
  let profile = withVersionAbove(others, withNextVersion(survivor, after, now));
  if (profile === survivor) return { kind: 'unchanged', profile, dropped };
  if (isTooMany(profile.identities)) return { kind: 'refused', reason: 'too_many_identities' };
  let text = '';
  const excess = excessOf(
    profile,
    () => {
      text ||= JSON.stringify(profile);
      return text;
    },
    profiles,
    write.claimedBy === undefined ? bounds : withRoom(bounds),
  );
  if (excess !== undefined) return { kind: 'refused', reason: 'too_large', excess };
  if (exceedsBytes(text, MAX_PROFILE_BYTES)) {
    profile = withoutOrigins(profile);
    text = JSON.stringify(profile);
    const size = Buffer.byteLength(text);
    if (size > MAX_PROFILE_BYTES)
      return {
        kind: 'refused',
        reason: 'too_large',
        excess: { of: 'bytes', size, limit: MAX_PROFILE_BYTES },
      };
  }
  return { kind: 'changed', profile, text, change: changeOf(survivor, profile), dropped };
}

/**
 * Raises the version above those of all merged profiles, so that a change of a ucid that is split off later is newer
 * than its earlier changes.
 */
function withVersionAbove(others: readonly Profile[], profile: Profile): Profile {
  if (others.length === 0) return profile;
  return { ...profile, version: Math.max(profile.version, ...others.map(({ version }) => version + 1)) };
}

/** The role of an event in the profiles that it joins. */
interface Role {
  /** The principal of an event; undefined for a call. */
  readonly principal?: Identity;
  /** The principal is pinned in the profile, as the first of its kind. */
  readonly isCenter: boolean;
  /** The profiles; those whose pinned identities are linked now, so that an event can take them out again, are changed. */
  readonly parted: readonly [Profile, ...Profile[]];
}

/** Of the profiles that an event joins, one keeps its pinned identities: that of the event's user, else one with a user. */
function roleOf(write: ProfileWrite, identities: readonly Identity[], profiles: Role['parted']): Role {
  const [principal] = write.identities;
  if (write.linking === 'merge' || write.claimedBy !== undefined || principal === undefined)
    return { isCenter: false, parted: profiles };
  const isPrincipal = sameIdentity(principal);
  // An alias: a later event may show that it does not count, and part its users.
  if (identities.some((one) => one.type === PERSON && one !== principal))
    return { principal, isCenter: false, parted: mapProfiles(profiles, unpinned) };
  const owner = profiles.find(({ identities }) => identities.some(isPrincipal));
  const isNew = profiles.length === 1 && profiles[0].identities.length === 0;
  const isCenter = owner === undefined && (isNew || principal.type === PERSON);
  if (profiles.length === 1 && !(isCenter && !isNew)) return { principal, isCenter, parted: profiles };
  const home =
    owner !== undefined && hasUser(owner)
      ? owner
      : isCenter
        ? undefined
        : (profiles.find(hasUser) ?? owner ?? profiles[0]);
  const parted = mapProfiles(profiles, (profile) => (profile === home ? profile : unpinned(profile)));
  return { principal, isCenter, parted };
}

function mapProfiles([first, ...others]: Role['parted'], map: (profile: Profile) => Profile): Role['parted'] {
  return [map(first), ...others.map(map)];
}

interface Admitted {
  readonly identities: readonly Identity[];
  readonly leftOut: readonly LeftOut[];
  readonly role: Role;
  /** The write merges no profiles. */
  readonly isOne: boolean;
}

function withWrite(
  profile: Profile,
  admitted: Admitted,
  write: ProfileWrite,
  now: number,
): { readonly after: Profile; readonly dropped: readonly Identity[] } {
  const { attributes, preferences, consents, ts, claimedBy, limits } = write;
  if (claimedBy !== undefined) return { after: withClaim(profile, write, claimedBy), dropped: [] };
  const { identities, part, named } = written(profile, admitted, write, ts ?? now);
  const of = <Item extends Register>(items: readonly Item[]): readonly Item[] =>
    part === undefined ? items : items.map((item) => (item.from === part ? item : { ...item, from: part }));
  const values = joinValues(withHidden(profile), {
    attributes: of(stampAttributes(profile.attributes, attributes, ts, now)),
    preferences: of(stampNamed(profile.preferences, preferences, ts, now)),
    consents: of(stampNamed(profile.consents, consents, ts, now)),
  });
  // A record that is written back as it was read changes nothing, the times of its identities included.
  const repeats = write.isByReader === true && valuesOf(write) > 0 && hasValues(profile, values);
  const held = repeats ? identities.map((identity) => ({ ...identity, ts: 0 })) : identities;
  const all = joinIdentities(profile.identities, held);
  const { kept, dropped } = withoutOldest(all, limits ?? DEFAULT_LIMITS);
  const after = withContent(profile, {
    created_ts: profile.created_ts,
    linked: profile.linked,
    identities: kept === all ? all : keptIfSame(profile.identities, kept),
    hidden: undefined,
    ...values,
  });
  return { after: withoutShared(withoutLiftedBlocks(withNamed(after, named)), dropped), dropped };
}

/** The identities of a write as the profile gets them, the part that its values are of, and what it named of others. */
function written(
  profile: Profile,
  { identities, leftOut, role, isOne }: Admitted,
  write: ProfileWrite,
  ts: number,
): {
  readonly identities: readonly HeldIdentity[];
  readonly part?: string | undefined;
  readonly named: readonly NamedElsewhere[];
} {
  const { principal } = role;
  const heldAs = (identity: Identity) => profile.identities.find(sameIdentity(identity));
  if (principal === undefined) {
    const isPinned = identities.length > 1 || write.ucid !== undefined || !isOne;
    const part = isOne ? partNamed(profile, identities, write) : undefined;
    return {
      identities: identities.map(({ type, value }) => {
        const held = heldAs({ type, value });
        const from = held === undefined ? ucidOf(profile, part) : undefined;
        return {
          type,
          value,
          ts,
          ...(from === undefined ? {} : { from }),
          ...(isPinned || held?.by === undefined
            ? {}
            : { by: { [refOf(profile, held)]: [ts, ts, 0] as const } }),
        };
      }),
      part,
      named: [],
    };
  }
  const held = heldAs(principal);
  const isPinned = role.isCenter || (held !== undefined && held.by === undefined);
  const ref = refOf(profile, principal);
  const by = { [ref]: [ts, ts, write.order ?? 0] as const };
  return {
    identities: identities.map((identity) => {
      const { type, value } = identity;
      const user: Pick<HeldIdentity, 'since' | 'alias'> =
        type !== PERSON
          ? {}
          : identity === principal
            ? { since: [ts, write.order ?? 0] }
            : { alias: [ts, write.order ?? 0, ref] };
      if (isPinned && identity === principal) return { type, value, ts, ...user };
      const from = held?.from === undefined || heldAs(identity) !== undefined ? undefined : held.from;
      return { type, value, ts, ...(from === undefined ? {} : { from }), by, ...user };
    }),
    part: isPinned ? held?.from : ref,
    named: leftOut.flatMap(({ identity, why }) =>
      why === 'another_person' ? [{ ref: refOf(profile, identity), by }] : [],
    ),
  };
}

/** The part that a call names, by identities of it alone or by its ucid. */
function partNamed(
  profile: Profile,
  identities: readonly Identity[],
  { ucid }: Pick<ProfileWrite, 'ucid'>,
): string | undefined {
  if (profile.hidden === undefined && profile.linked.length === 0) return undefined;
  const parts = new Set(
    identities.flatMap((identity) => {
      const held = profile.identities.find(sameIdentity(identity));
      return held === undefined ? [] : [held.by === undefined ? held.from : refOf(profile, held)];
    }),
  );
  if (ucid !== undefined && profile.linked.includes(ucid)) parts.add(ucid);
  const [part, ...others] = parts;
  return others.length === 0 ? part : undefined;
}

/** The ucid of a part before its merge. */
function ucidOf(profile: Profile, part: string | undefined): string | undefined {
  if (part === undefined || !isRef(part)) return part;
  return profile.identities.find((identity) => refOf(profile, identity) === part)?.from;
}

function hasValues(
  { attributes, preferences, consents, hidden }: Profile,
  values: ReturnType<typeof joinValues>,
): boolean {
  return (
    values.attributes === attributes &&
    values.preferences === preferences &&
    values.consents === consents &&
    values.hidden === hidden
  );
}

/**
 * Set where there are so many registers that no values are small enough. Checked before merging, which costs more than
 * counting.
 */
function tooManyValues(
  holder: Pick<Profile | ProfileWrite, 'attributes' | 'preferences' | 'consents'>,
): ProfileExcess | undefined {
  const size = valuesOf(holder) * LEAST_REGISTER_BYTES;
  return size > MAX_PROFILE_BYTES ? { of: 'bytes', size, limit: MAX_PROFILE_BYTES } : undefined;
}
