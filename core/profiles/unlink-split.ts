import { timeOfId } from '../primitives/ids.ts';
import { changeOf } from './changes.ts';
import { identityHash, identityKey } from './identity/identity.ts';
import { joinUnlinked, withNextVersion } from './merge.ts';
import {
  type HeldIdentity,
  type Identity,
  MAX_PROFILE_BYTES,
  type Profile,
  type UnlinkedIdentity,
} from './profile.ts';
import type {
  ProfileChange,
  ProfileUnlink,
  SplitRefusal,
  UnattributedValues,
  UnlinkRefusal,
} from './profile-store.ts';
import { mapLists, withoutOrigin, withoutOrigins } from './registers.ts';
import { sharedOf, withoutShared } from './shared-identities.ts';

export type Unlinking =
  | { readonly kind: 'unlinking'; readonly profile: Profile; readonly notHeld: readonly number[] }
  | { readonly kind: 'refused'; readonly reason: Exclude<UnlinkRefusal, 'too_large'> };

/**
 * Finds the profile of an unlink. `owners`: of its identities, by index; `named`: the profile of its ucid, undefined
 * where there is none.
 */
export function unlinkingOf(
  { ucid }: Pick<ProfileUnlink, 'ucid'>,
  owners: readonly (Profile | undefined)[],
  named: Profile | undefined,
): Unlinking {
  if (ucid !== undefined && named === undefined) return { kind: 'refused', reason: 'no_profile' };
  const profiles = new Map(
    [named, ...owners].flatMap((profile) => (profile === undefined ? [] : [[profile.ucid, profile]])),
  );
  const [profile, ...others] = profiles.values();
  if (profile === undefined) return { kind: 'refused', reason: 'no_profile' };
  if (others.length > 0) return { kind: 'refused', reason: 'several_profiles' };
  const notHeld = owners.flatMap((owner, at) => (owner === undefined ? [at] : []));
  return { kind: 'unlinking', profile, notHeld };
}

export type AppliedUnlink =
  | {
      readonly kind: 'changed';
      readonly profile: Profile;
      /** The JSON of `profile`. */
      readonly text: string;
      readonly change: ProfileChange;
    }
  | { readonly kind: 'refused'; readonly reason: Extract<UnlinkRefusal, 'too_large'> };

/**
 * Removes the identities from the profile, which remembers them by hash. Values stay: nobody can tell by which
 * identity they came.
 */
export function applyUnlink(profile: Profile, identities: readonly Identity[], now: number): AppliedUnlink {
  const taken = new Set(identities.map(identityKey));
  const unlinked = joinUnlinked(
    profile.unlinked,
    identities.map((identity) => ({ hash: identityHash(profile, identity), ts: now })),
  );
  const after = withNextVersion(
    profile,
    {
      ...withoutShared(profile, identities),
      identities: profile.identities.filter((identity) => !taken.has(identityKey(identity))),
      unlinked,
    },
    now,
  );
  for (const unlinkedProfile of [after, withoutOrigins(after)]) {
    const text = JSON.stringify(unlinkedProfile);
    if (Buffer.byteLength(text) <= MAX_PROFILE_BYTES)
      return { kind: 'changed', profile: unlinkedProfile, text, change: changeOf(profile, unlinkedProfile) };
  }
  return { kind: 'refused', reason: 'too_large' };
}

/** One of the two profiles after a split. */
export interface SplitProfile {
  readonly profile: Profile;
  /** The JSON of `profile`. */
  readonly text: string;
  readonly change: ProfileChange;
}

export type AppliedSplit =
  | {
      readonly kind: 'split';
      readonly survivor: SplitProfile;
      /** The profile that was split off. */
      readonly apart: SplitProfile;
      readonly kept: UnattributedValues;
    }
  | { readonly kind: 'refused'; readonly reason: Exclude<SplitRefusal, 'unknown_ucid'> };

/**
 * Undoes the merge of `ucid` into the profile: the data that came from `ucid` becomes a profile again. Values written after
 * the merge have no origin and stay with the survivor. Each of the two records the identities of the other as
 * unlinked, so that no event merges them again.
 *
 * The restored profile has a higher version than every change that named its ucid as linked.
 */
export function applySplit(merged: Profile, ucid: string, now: number): AppliedSplit {
  if (!merged.linked.includes(ucid)) return { kind: 'refused', reason: 'not_merged' };
  const theirs = mapLists(merged, (items) => items.filter(({ from }) => from === ucid).map(withoutOrigin));
  const mine = mapLists(merged, (items) => items.filter(({ from }) => from !== ucid));
  if (Object.values(theirs).every((items) => items.length === 0))
    return { kind: 'refused', reason: 'unknown_origin' };
  const linked = merged.linked.filter((other) => other !== ucid);
  const left = withNextVersion(
    merged,
    withUnlinked(
      withoutShared({ ...merged, ...mine, linked }, theirs.identities),
      unlinkedBy(merged, theirs.identities, now),
    ),
    now,
  );
  const { org, region, version, updated_ts } = left;
  const back = withUnlinked(
    {
      org,
      region,
      ucid,
      created_ts: Math.min(timeOfId(ucid) ?? merged.created_ts, updated_ts),
      updated_ts,
      version,
      ...theirs,
      ...sharedOf(merged, theirs.identities),
      linked: [],
    },
    unlinkedBy(merged, mine.identities, now),
  );
  // A profile without merges needs no origins.
  const survivor = withinSize(merged, linked.length === 0 ? withoutOrigins(left) : left);
  const apart = withinSize(back, back);
  if (survivor === undefined || apart === undefined) return { kind: 'refused', reason: 'too_large' };
  return { kind: 'split', survivor, apart, kept: unattributedValuesOf(merged) };
}

/** The blocks of the merged profile, which both sides keep, and a block on each of these identities. */
function unlinkedBy(
  merged: Profile,
  identities: readonly HeldIdentity[],
  now: number,
): readonly UnlinkedIdentity[] {
  const blocks = identities.map((identity) => ({ hash: identityHash(merged, identity), ts: now }));
  return joinUnlinked(merged.unlinked, blocks);
}

function withUnlinked(profile: Profile, unlinked: readonly UnlinkedIdentity[]): Profile {
  return unlinked.length === 0 ? profile : { ...profile, unlinked };
}

/** Drops the origins where the profile is too large with them; undefined where it still is without. */
function withinSize(before: Profile, after: Profile): SplitProfile | undefined {
  for (const profile of [after, withoutOrigins(after)]) {
    const text = JSON.stringify(profile);
    if (Buffer.byteLength(text) <= MAX_PROFILE_BYTES)
      return { profile, text, change: changeOf(before, profile) };
  }
  return undefined;
}

/** Values without an origin: written after the merge, or merged before origins were kept. */
function unattributedValuesOf({
  identities,
  attributes,
  preferences,
  consents,
}: Profile): UnattributedValues {
  return {
    attributes: attributes.flatMap(({ from, path }) => (from === undefined ? [path] : [])),
    preferences: preferences.flatMap(({ from, name }) => (from === undefined ? [name] : [])),
    consents: consents.flatMap(({ from, name }) => (from === undefined ? [name] : [])),
    identityTypes: [...new Set(identities.flatMap(({ from, type }) => (from === undefined ? [type] : [])))],
  };
}
