import { joinAttributes } from './attributes.ts';
import {
  HASHED_EMAIL,
  hasSpellings,
  identityHash,
  identityKey,
  newerSpelling,
  RAW_EMAIL,
} from './identity/identity.ts';
import type { HeldIdentity, Identity, Profile, ProfileScope, UnlinkedIdentity } from './profile.ts';
import { compareText, joinNamed, keptIfSame, smallerOrigin, withOrigins } from './registers.ts';
import { joinShared } from './shared-identities.ts';

/** A profile before its first write: nothing is known and nothing was stored yet, hence version 0. */
export function freshProfile({ org, region }: ProfileScope, ucid: string, now: number): Profile {
  return {
    org,
    region,
    ucid,
    created_ts: now,
    updated_ts: now,
    version: 0,
    identities: [],
    attributes: [],
    preferences: [],
    consents: [],
    linked: [],
  };
}

/**
 * The master with everything the other one has: the newest of each value, all identities, its ucid and those that led
 * to it as linked. The master itself when it has all of that already, so folding again changes nothing. The order in
 * which several are folded in does not matter, but for version and `updated_ts`. Bounds are `applyWrite`'s.
 */
export function fold(master: Profile, other: Profile, now: number): Profile {
  return revised(master, joined(master, other), now);
}

/**
 * The content of both under the name of the master; neither version nor time moves. Everything the other one has names
 * its origin then; what the master has, where this is its first merge: later it may have been written for either.
 */
export function joined(master: Profile, other: Profile): Profile {
  if (master.ucid === other.ucid) return master;
  const mine = master.linked.length === 0 ? withOrigins(master) : master;
  const theirs = withOrigins(other);
  const both = withContent(withSharedOf(master, other), {
    created_ts: Math.min(master.created_ts, other.created_ts),
    identities: joinIdentities(mine.identities, theirs.identities),
    attributes: joinAttributes(mine.attributes, theirs.attributes),
    preferences: joinNamed(mine.preferences, theirs.preferences),
    consents: joinNamed(mine.consents, theirs.consents),
    linked: joinUcids(master.linked, [other.ucid, ...other.linked]),
  });
  if (master.unlinked === undefined && other.unlinked === undefined) return both;
  return withoutLiftedBlocks({ ...both, unlinked: joinUnlinked(master.unlinked, other.unlinked) });
}

function withSharedOf(master: Profile, { shared }: Profile): Profile {
  if (shared === undefined) return master;
  const both = joinShared(master.shared, shared);
  return both === master.shared ? master : { ...master, shared: both };
}

type Content = Pick<
  Profile,
  'created_ts' | 'identities' | 'attributes' | 'preferences' | 'consents' | 'linked'
>;

/** The profile with this content; itself when that is what it has. */
export function withContent(profile: Profile, content: Content): Profile {
  const same =
    content.created_ts === profile.created_ts &&
    content.identities === profile.identities &&
    content.attributes === profile.attributes &&
    content.preferences === profile.preferences &&
    content.consents === profile.consents &&
    content.linked === profile.linked;
  return same ? profile : { ...profile, ...content };
}

/** The next version of a profile that changed to `after`; `before` itself when it did not. */
export function revised(before: Profile, after: Profile, now: number): Profile {
  if (after === before) return before;
  const updated_ts = before.version === 0 ? now : Math.max(now, before.updated_ts + 1);
  return { ...after, version: before.version + 1, updated_ts };
}

function joinUcids(left: readonly string[], right: readonly string[]): readonly string[] {
  return keptIfSame(left, [...new Set([...left, ...right])].sort(compareText));
}

/** Each identity once, at the place where it came first; of an e-mail's two forms the address. */
export function distinctIdentities(identities: readonly Identity[]): readonly Identity[] {
  const byKey = new Map<string, Identity>();
  for (const identity of identities) {
    const key = identityKey(identity);
    const known = byKey.get(key);
    if (known === undefined || isPlainer(identity, known)) byKey.set(key, identity);
  }
  return [...byKey.values()];
}

/**
 * Both lists as one, each identity once with the newest of its times. Sorted by type and value; the left list itself
 * when the right one has nothing newer. Associative, commutative and idempotent but for which of two equals it is.
 */
export function joinIdentities(
  left: readonly HeldIdentity[],
  right: readonly HeldIdentity[],
): readonly HeldIdentity[] {
  if (right.length === 0) return left;
  const keyOf = keysWhereNeeded(left, right);
  const byKey = new Map(left.map((identity) => [keyOf(identity), identity]));
  for (const identity of right) {
    const key = keyOf(identity);
    const held = byKey.get(key);
    byKey.set(key, held === undefined ? identity : one(held, identity));
  }
  return keptIfSame(left, [...byKey.values()].sort(byTypeAndValue));
}

/**
 * As they are shown: an identity that is there in an older spelling too, by which a profile of an earlier release was
 * found, is there once, with the newest of its times.
 */
export function withoutOlderSpellings(identities: readonly HeldIdentity[]): readonly HeldIdentity[] {
  const spelled = identities.filter(hasSpellings);
  if (spelled.length < 2) return identities;
  const shown = new Map(identities.map((identity) => [identity, identity]));
  for (const older of spelled) {
    const newer = newerSpelling(older, spelled);
    if (newer === undefined) continue;
    shown.delete(older);
    shown.set(newer, { ...newer, ts: Math.max(older.ts, shown.get(newer)?.ts ?? 0) });
  }
  return [...shown.values()];
}

function one(held: HeldIdentity, other: HeldIdentity): HeldIdentity {
  const { type, value } = isPlainer(other, held) ? other : held;
  const ts = Math.max(held.ts, other.ts);
  const from = smallerOrigin(held, other);
  if (type === held.type && ts === held.ts && from === held.from) return held;
  return { type, value, ts, ...(from === undefined ? {} : { from }) };
}

function isPlainer(identity: Identity, other: Identity): boolean {
  return identity.type === RAW_EMAIL && other.type === HASHED_EMAIL;
}

/** `identityKey`, without the cost of hashing addresses where no hashed one is there to be compared with. */
function keysWhereNeeded(...lists: readonly (readonly Identity[])[]): (identity: Identity) => string {
  const hashed = lists.some((list) => list.some(({ type }) => type === HASHED_EMAIL));
  return hashed ? identityKey : ({ type, value }) => `${type}=${value}`;
}

function byTypeAndValue(left: Identity, right: Identity): number {
  return compareText(left.type, right.type) || compareText(left.value, right.value);
}

/** Both lists as one, each identity once with its newest time; sorted. */
export function joinUnlinked(
  left: readonly UnlinkedIdentity[] = [],
  right: readonly UnlinkedIdentity[] = [],
): readonly UnlinkedIdentity[] {
  if (right.length === 0) return left;
  const newest = new Map(left.map(({ hash, ts }) => [hash, ts]));
  for (const { hash, ts } of right) newest.set(hash, Math.max(ts, newest.get(hash) ?? ts));
  return Array.from(newest, ([hash, ts]) => ({ hash, ts })).sort((a, b) => compareText(a.hash, b.hash));
}

/** The profile without blocks on identities that it has: only an explicit write lets one in. */
export function withoutLiftedBlocks(profile: Profile): Profile {
  // Nearly every write: nothing is copied for it.
  if (profile.unlinked === undefined) return profile;
  const { unlinked, ...rest } = profile;
  const held = new Set(profile.identities.map((identity) => identityHash(profile, identity)));
  const left = unlinked.filter(({ hash }) => !held.has(hash));
  if (left.length === unlinked.length) return profile;
  return left.length === 0 ? rest : { ...rest, unlinked: left };
}
