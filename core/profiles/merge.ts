import {
  HASHED_EMAIL,
  hasSpellings,
  identityHash,
  identityKey,
  newerSpelling,
  RAW_EMAIL,
} from './identity/identity.ts';
import { firstAlias, joinMentions, joinShared, lastMention, withNamed } from './links.ts';
import type { HeldIdentity, Identity, Profile, ProfileScope, UnlinkedIdentity } from './profile.ts';
import type { ProfileChange } from './profile-store.ts';
import { compareText, joinValues, keptIfSame, smallerOrigin, withOrigins } from './registers.ts';

/** A profile before its first write; version 0 as nothing is stored. */
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
 * Merges `other` into `survivor`: the newest of each value, all identities, and all ucids of `other` as linked, under the
 * survivor's ucid, with unchanged version and time. The order in which several profiles are merged does not matter. All
 * values of `other` get their origin; those of the survivor only at its first merge, because values written later may
 * belong to either. `applyWrite` checks the bounds.
 */
export function mergeContent(survivor: Profile, other: Profile): Profile {
  if (survivor.ucid === other.ucid) return survivor;
  const mine = survivor.linked.length === 0 ? withOrigins(survivor) : survivor;
  const theirs = withOrigins(other);
  const joined = withContent(withSharedOf(survivor, other), {
    created_ts: Math.min(survivor.created_ts, other.created_ts),
    identities: joinIdentities(mine.identities, theirs.identities),
    ...joinValues(withHidden(mine), withHidden(theirs), true),
    linked: joinUcids(survivor.linked, [other.ucid, ...other.linked]),
  });
  const both =
    other.elsewhere === undefined && joined.elsewhere === undefined
      ? joined
      : withNamed(joined, other.elsewhere ?? []);
  if (survivor.unlinked === undefined && other.unlinked === undefined) return both;
  return withoutLiftedBlocks({ ...both, unlinked: joinUnlinked(survivor.unlinked, other.unlinked) });
}

/** Releases before 0.3 kept no hidden values where they merged. */
export function withHidden(
  profile: Profile,
): Pick<Profile, 'attributes' | 'preferences' | 'consents' | 'hidden'> {
  if (profile.linked.length === 0 || profile.hidden !== undefined) return profile;
  return { ...profile, hidden: { attributes: [], preferences: [], consents: [], partial: true } };
}

function withSharedOf(survivor: Profile, { shared }: Profile): Profile {
  if (shared === undefined) return survivor;
  const both = joinShared(survivor.shared, shared);
  return both === survivor.shared ? survivor : { ...survivor, shared: both };
}

type Content = Pick<
  Profile,
  'created_ts' | 'identities' | 'attributes' | 'preferences' | 'consents' | 'linked'
> & { readonly hidden?: Profile['hidden'] | undefined };

/** The profile with this content, or itself when nothing differs. */
export function withContent(profile: Profile, content: Content): Profile {
  const same =
    content.created_ts === profile.created_ts &&
    content.identities === profile.identities &&
    content.attributes === profile.attributes &&
    content.preferences === profile.preferences &&
    content.consents === profile.consents &&
    content.linked === profile.linked &&
    content.hidden === profile.hidden;
  if (same) return profile;
  const { hidden, ...rest } = content;
  const { hidden: _, ...others } = profile;
  return hidden === undefined ? { ...others, ...rest } : { ...others, ...rest, hidden };
}

/** The next version of a changed profile; `before` itself when nothing changed. */
export function withNextVersion(before: Profile, after: Profile, now: number): Profile {
  if (after === before) return before;
  const updated_ts = before.version === 0 ? now : Math.max(now, before.updated_ts + 1);
  return { ...after, version: before.version + 1, updated_ts };
}

function joinUcids(left: readonly string[], right: readonly string[]): readonly string[] {
  return keptIfSame(left, [...new Set([...left, ...right])].sort(compareText));
}

/** Each identity once, at its first position; of an e-mail address and its hash, the address. */
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
 * Merges two lists, each identity once with its newest time. Sorted by type and value; returns `left` itself when
 * `right` has nothing newer. Associative, commutative and idempotent, except for which of two equals is kept.
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
    byKey.set(key, held === undefined ? identity : mergedIdentity(held, identity));
  }
  return keptIfSame(left, [...byKey.values()].sort(byTypeAndValue));
}

/**
 * The identities as records show them: an identity that is also there in an older spelling, from an earlier release,
 * is shown once with the newest time.
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

function mergedIdentity(held: HeldIdentity, other: HeldIdentity): HeldIdentity {
  const { type, value } = isPlainer(other, held) ? other : held;
  // An identity that one side has pinned stays pinned.
  const by = held.by === undefined || other.by === undefined ? undefined : joinMentions(held.by, other.by);
  const newest = Math.max(held.ts, other.ts);
  const ts = by === undefined ? newest : lastMention(by, newest);
  const from = smallerOrigin(held, other);
  const since = earlierSince(held, other);
  const alias = firstAlias(held.alias, other.alias);
  if (
    type === held.type &&
    ts === held.ts &&
    from === held.from &&
    by === held.by &&
    since === held.since &&
    alias === held.alias
  )
    return held;
  // Without spreads, which cost more than the rest of the merge.
  const merged: { -readonly [Name in keyof HeldIdentity]: HeldIdentity[Name] } = { type, value, ts };
  if (from !== undefined) merged.from = from;
  if (by !== undefined) merged.by = by;
  if (since !== undefined) merged.since = since;
  if (alias !== undefined) merged.alias = alias;
  return merged;
}

/** When the first event was about a user; a user that was known before all events stays so. */
function earlierSince(held: HeldIdentity, other: HeldIdentity): HeldIdentity['since'] {
  if (held.since === undefined) return held.by === undefined ? undefined : other.since;
  if (other.since === undefined) return held.since;
  return other.since[0] - held.since[0] < 0 ||
    (other.since[0] === held.since[0] && other.since[1] < held.since[1])
    ? other.since
    : held.since;
}

function isPlainer(identity: Identity, other: Identity): boolean {
  return identity.type === RAW_EMAIL && other.type === HASHED_EMAIL;
}

/** `identityKey`, without hashing addresses where there is no hashed address to compare with. */
function keysWhereNeeded(...lists: readonly (readonly Identity[])[]): (identity: Identity) => string {
  const hashed = lists.some((list) => list.some(({ type }) => type === HASHED_EMAIL));
  return hashed ? identityKey : ({ type, value }) => `${type}=${value}`;
}

function byTypeAndValue(left: Identity, right: Identity): number {
  return compareText(left.type, right.type) || compareText(left.value, right.value);
}

/** Merges two lists, each identity once with its newest time; sorted. */
export function joinUnlinked(
  left: readonly UnlinkedIdentity[] = [],
  right: readonly UnlinkedIdentity[] = [],
): readonly UnlinkedIdentity[] {
  if (right.length === 0) return left;
  const newest = new Map(left.map(({ hash, ts }) => [hash, ts]));
  for (const { hash, ts } of right) newest.set(hash, Math.max(ts, newest.get(hash) ?? ts));
  return Array.from(newest, ([hash, ts]) => ({ hash, ts })).sort((a, b) => compareText(a.hash, b.hash));
}

/** Removes blocks on identities that the profile has: only an explicit write can have linked one again. */
export function withoutLiftedBlocks(profile: Profile): Profile {
  // The common case copies nothing.
  if (profile.unlinked === undefined) return profile;
  const { unlinked, ...rest } = profile;
  const held = new Set(profile.identities.map((identity) => identityHash(profile, identity)));
  const left = unlinked.filter(({ hash }) => !held.has(hash));
  if (left.length === unlinked.length) return profile;
  return left.length === 0 ? rest : { ...rest, unlinked: left };
}

/** The change of a committed write; `before` has version 0 when the profile is new. */
export function changeOf(before: Profile, after: Profile): ProfileChange {
  const known = new Set(before.linked);
  const linked = after.linked.filter((ucid) => !known.has(ucid));
  const { org, region, ucid, version, updated_ts: at } = after;
  const kind = linked.length > 0 ? 'merged' : 'written';
  return { kind, org, region, ucid, version, at, profile: after, linked };
}

/** The change of a deletion: only the ucids that led to the profile. */
export function deletionOf({ org, region, ucid, version, linked }: Profile, now: number): ProfileChange {
  return { kind: 'deleted', org, region, ucid, version: version + 1, at: now, linked };
}
