import { identityHash } from './identity/identity.ts';
import { DEFAULT_LIMITS, type IdentityLimits, PERSON } from './identity/identity-limits.ts';
import { firstAlias } from './links.ts';
import type { FirstAlias, Identity, Profile, ProfileScope, SharedIdentity } from './profile.ts';
import type { CompetingClaim, ProfileWrite } from './profile-store.ts';
import { compareText, keptIfSame } from './registers.ts';

/*
 * An address that a form fills in for everybody, or the id of a shared device, links people who have nothing to do
 * with each other. Only the number of different users that come with such a value gives it away, so that number is
 * bounded. Explicit writes merge users, and the merged profile lists them. Events keep users apart, so the owner of
 * the value records short hashes of the other users that came with it. Both count together; above the bound the
 * identity is set aside: it links nothing any more.
 */

/** Characters of a user's hash: among a thousand users, the chance of a collision is 1 in 10^15. */
const CLAIMANT_CHARACTERS = 12;

/** A hash that stands for a `user_id` of another profile, which must not be kept. */
export function claimantOf(scope: ProfileScope, value: string): string {
  return identityHash(scope, { type: PERSON, value }).slice(0, CLAIMANT_CHARACTERS);
}

/** Whether more users than allowed came with an identity of the profile. A `user_id` is never set aside. */
export function isSetAside(
  profile: Profile,
  identity: Identity,
  { user_ids: bound }: IdentityLimits = DEFAULT_LIMITS,
): boolean {
  if (profile.shared === undefined || identity.type === PERSON) return false;
  const claimants = claimantsOn(profile, identity);
  if (claimants.length === 0) return false;
  return new Set([...claimants, ...claimantsIn(profile)]).size > bound;
}

/**
 * The hash of the write's user, where the owner of the identity has not recorded it yet. Of a previous id it records the user
 * of the first alias, whether it counts or not.
 */
export function unknownClaimant(write: ProfileWrite, identity: Identity, owner: Profile): string | undefined {
  const user = write.identities.find(({ type }) => type === PERSON);
  if (user === undefined || user === identity) return undefined;
  const claimant = claimantOf(write, user.value);
  const isKnown =
    identity.type === PERSON
      ? withAlias(owner, identity, aliasOf(write, claimant)) === owner
      : claimantsOn(owner, identity).includes(claimant);
  return isKnown ? undefined : claimant;
}

/** The alias of a write, or of the claim of one. */
export function aliasOf(
  { ts = Number.MAX_SAFE_INTEGER, order = 0 }: Pick<ProfileWrite, 'ts' | 'order'>,
  claimant: string,
): FirstAlias {
  return [ts, order, claimant];
}

function withAlias(profile: Profile, previous: Identity, alias: FirstAlias): Profile {
  const identities = profile.identities.map((one) => {
    const first =
      one.type === previous.type && one.value === previous.value ? firstAlias(one.alias, alias) : undefined;
    return first === undefined || first === one.alias ? one : { ...one, alias: first };
  });
  return keptIfSame(profile.identities, identities) === profile.identities
    ? profile
    : { ...profile, identities };
}

/** The write that records a competing claim with the owner of the identity. */
export function competingClaimWrite(
  { org, region, limits, ts, order }: Pick<ProfileWrite, 'org' | 'region' | 'limits' | 'ts' | 'order'>,
  { identity, claimant }: CompetingClaim,
): ProfileWrite {
  return {
    org,
    region,
    identities: [identity],
    attributes: [],
    preferences: [],
    consents: [],
    linking: 'keep-people-apart',
    ...(limits === undefined ? {} : { limits }),
    ...(ts === undefined ? {} : { ts }),
    ...(order === undefined ? {} : { order }),
    claimedBy: claimant,
  };
}

/**
 * Records a user that came with the identity of the write; returns the profile itself where that is known, or the identity
 * is already set aside.
 */
export function withClaim(profile: Profile, write: ProfileWrite, claimant: string): Profile {
  const { limits } = write;
  const [identity] = write.identities;
  if (identity === undefined) return profile;
  if (identity.type === PERSON) return withAlias(profile, identity, aliasOf(write, claimant));
  if (claimantsIn(profile).includes(claimant) || isSetAside(profile, identity, limits)) return profile;
  const claimants = claimantsOn(profile, identity);
  if (claimants.includes(claimant)) return profile;
  const hash = identityHash(profile, identity);
  return { ...profile, shared: joinShared(profile.shared, [{ hash, claimants: [claimant] }]) };
}

/** Merges two lists; returns `left` itself when `right` adds nothing. */
export function joinShared(
  left: readonly SharedIdentity[] = [],
  right: readonly SharedIdentity[] = [],
): readonly SharedIdentity[] {
  const byHash = new Map(left.map(({ hash, claimants }) => [hash, claimants]));
  let isNew = false;
  for (const { hash, claimants } of right) {
    const known = byHash.get(hash) ?? [];
    if (claimants.every((claimant) => known.includes(claimant))) continue;
    byHash.set(hash, [...new Set([...known, ...claimants])].sort(compareText));
    isNew = true;
  }
  if (!isNew) return left;
  return Array.from(byHash, ([hash, claimants]) => ({ hash, claimants })).sort((a, b) =>
    compareText(a.hash, b.hash),
  );
}

/** Removes the records of identities that the profile lost. */
export function withoutShared(profile: Profile, lost: readonly Identity[]): Profile {
  if (profile.shared === undefined || lost.length === 0) return profile;
  const { shared, ...rest } = profile;
  const hashes = new Set(lost.map((identity) => identityHash(profile, identity)));
  const left = shared.filter(({ hash }) => !hashes.has(hash));
  if (left.length === shared.length) return profile;
  return left.length === 0 ? rest : { ...rest, shared: left };
}

/** The records of these identities, for the profile that gets them in a split. */
export function sharedOf(profile: Profile, identities: readonly Identity[]): Pick<Profile, 'shared'> {
  if (profile.shared === undefined) return {};
  const hashes = new Set(identities.map((identity) => identityHash(profile, identity)));
  const shared = profile.shared.filter(({ hash }) => hashes.has(hash));
  return shared.length === 0 ? {} : { shared };
}

/**
 * Identities by which an explicit write would merge too many users: those that are set aside and would bring others
 * to their profile; and, where all together are too many, those that led to users. Undefined where the write is
 * allowed.
 */
export function sharedByMerge(
  write: ProfileWrite,
  owners: readonly (Profile | undefined)[],
  named: Profile | undefined,
):
  | { readonly identities: readonly Identity[]; readonly competingClaims: readonly CompetingClaim[] }
  | undefined {
  const { limits = DEFAULT_LIMITS } = write;
  if (isClearlyWithinBound(write, owners, named, limits)) return undefined;
  const setAside = write.identities.filter((identity, at) => {
    const owner = owners[at];
    if (owner === undefined || owner.ucid === named?.ucid || !isSetAside(owner, identity, limits))
      return false;
    return named !== undefined || write.identities.some((_, other) => owners[other]?.ucid !== owner.ucid);
  });
  if (setAside.length > 0) return { identities: setAside, competingClaims: [] };
  const profiles = new Map<string, Profile>();
  for (const profile of [named, ...owners]) if (profile !== undefined) profiles.set(profile.ucid, profile);
  const users = new Set(usersIn(write.identities));
  let most = 0;
  for (const { identities } of profiles.values()) {
    const own = usersIn(identities);
    most = Math.max(most, own.length);
    for (const value of own) users.add(value);
  }
  if (users.size <= limits.user_ids || users.size === most) return undefined;
  const identities: Identity[] = [];
  const competingClaims: CompetingClaim[] = [];
  for (const [at, identity] of write.identities.entries()) {
    const owner = owners[at];
    if (owner === undefined || identity.type === PERSON || usersIn(owner.identities).length === 0) continue;
    identities.push(identity);
    const claimant = unknownClaimant(write, identity, owner);
    if (claimant !== undefined) competingClaims.push({ identity, claimant });
  }
  if (identities.length > 0) return { identities, competingClaims };
  return { identities: write.identities.filter(({ type }) => type === PERSON), competingClaims };
}

/**
 * Fast path for nearly every write: even with users counted twice they are within the bound, and nothing is set
 * aside.
 */
function isClearlyWithinBound(
  write: ProfileWrite,
  owners: readonly (Profile | undefined)[],
  named: Profile | undefined,
  { user_ids: bound }: IdentityLimits,
): boolean {
  let users = 0;
  for (const { type } of write.identities) if (type === PERSON) users++;
  let last: Profile | undefined;
  for (let at = -1; at < owners.length; at++) {
    const profile = at < 0 ? named : owners[at];
    if (profile === undefined || profile === last) continue;
    if (profile.shared !== undefined) return false;
    for (const { type } of profile.identities) if (type === PERSON) users++;
    last = profile;
  }
  return users <= bound;
}

function claimantsOn({ shared, ...scope }: Profile, identity: Identity): readonly string[] {
  if (shared === undefined) return [];
  const hash = identityHash(scope, identity);
  return shared.find((one) => one.hash === hash)?.claimants ?? [];
}

function claimantsIn(profile: Profile): readonly string[] {
  return usersIn(profile.identities).map((value) => claimantOf(profile, value));
}

function usersIn(identities: readonly Identity[]): readonly string[] {
  return identities.flatMap(({ type, value }) => (type === PERSON ? [value] : []));
}
