import { timeOfId } from '../ids/ids.ts';
import { changeOf } from './changes.ts';
import { revised } from './fold.ts';
import { identityHash } from './identity.ts';
import { mapLists, withoutOrigin, withoutOrigins } from './origins.ts';
import { type HeldIdentity, MAX_PROFILE_BYTES, type Profile, type UnlinkedIdentity } from './profile.ts';
import type { KeptPlaces, ProfileChange, SplitRefusal } from './profile-store.ts';
import { sharedOf, withoutShared } from './shared-identities.ts';
import { joinUnlinked } from './unlinked.ts';

/** One of the two profiles that a split leaves. */
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
      /** The profile of the ucid that was split off. */
      readonly apart: SplitProfile;
      readonly kept: KeptPlaces;
    }
  | { readonly kind: 'refused'; readonly reason: Exclude<SplitRefusal, 'unknown_ucid'> };

/**
 * Undoes the merge of `ucid` into the profile: what came from `ucid` is a profile of its own again, and the survivor
 * loses it. What was written after the merge has no origin and stays. Each of the two remembers the identities of the
 * other as unlinked, so that no event merges them again.
 *
 * The version of the profile that is back is higher than that of every change which named its ucid as linked.
 */
export function applySplit(merged: Profile, ucid: string, now: number): AppliedSplit {
  if (!merged.linked.includes(ucid)) return { kind: 'refused', reason: 'not_merged' };
  const theirs = mapLists(merged, (items) => items.filter(({ from }) => from === ucid).map(withoutOrigin));
  const mine = mapLists(merged, (items) => items.filter(({ from }) => from !== ucid));
  if (Object.values(theirs).every((items) => items.length === 0))
    return { kind: 'refused', reason: 'unknown_origin' };
  const linked = merged.linked.filter((other) => other !== ucid);
  const left = revised(
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
  // With nothing merged into it all that a profile has is its own.
  const survivor = weighed(merged, linked.length === 0 ? withoutOrigins(left) : left);
  const apart = weighed(back, back);
  if (survivor === undefined || apart === undefined) return { kind: 'refused', reason: 'too_large' };
  return { kind: 'split', survivor, apart, kept: keptPlaces(merged) };
}

/** The blocks of a merged profile, which both sides keep, and one on each of these identities. */
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

/** Without origins where it would be too large with them; undefined where it is then still. */
function weighed(before: Profile, after: Profile): SplitProfile | undefined {
  for (const profile of [after, withoutOrigins(after)]) {
    const text = JSON.stringify(profile);
    if (Buffer.byteLength(text) <= MAX_PROFILE_BYTES)
      return { profile, text, change: changeOf(before, profile) };
  }
  return undefined;
}

/** What cannot be told apart: it was written after the merge, or merged before origins were kept. */
function keptPlaces({ identities, attributes, preferences, consents }: Profile): KeptPlaces {
  return {
    attributes: attributes.flatMap(({ from, path }) => (from === undefined ? [path] : [])),
    preferences: preferences.flatMap(({ from, name }) => (from === undefined ? [name] : [])),
    consents: consents.flatMap(({ from, name }) => (from === undefined ? [name] : [])),
    identityTypes: [...new Set(identities.flatMap(({ from, type }) => (from === undefined ? [type] : [])))],
  };
}
