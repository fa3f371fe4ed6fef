import { changeOf } from './changes.ts';
import { revised } from './fold.ts';
import { identityHash, identityKey } from './identity.ts';
import { withoutOrigins } from './origins.ts';
import { type Identity, MAX_PROFILE_BYTES, type Profile } from './profile.ts';
import type { ProfileChange, ProfileUnlink, UnlinkRefusal } from './profile-store.ts';
import { withoutShared } from './shared-identities.ts';
import { joinUnlinked } from './unlinked.ts';

export type Unlinking =
  | { readonly kind: 'unlinking'; readonly profile: Profile; readonly notHeld: readonly number[] }
  | { readonly kind: 'refused'; readonly reason: Exclude<UnlinkRefusal, 'too_large'> };

/**
 * Which profile an unlink is about. `owners`: those of its identities, by their place; `named`: the profile of its ucid,
 * undefined where there is none.
 */
export function unlinkingOf(
  { ucid }: Pick<ProfileUnlink, 'ucid'>,
  owners: readonly (Profile | undefined)[],
  named: Profile | undefined,
): Unlinking {
  if (ucid !== undefined && named === undefined) return { kind: 'refused', reason: 'nobody' };
  const profiles = new Map(
    [named, ...owners].flatMap((profile) => (profile === undefined ? [] : [[profile.ucid, profile]])),
  );
  const [profile, ...others] = profiles.values();
  if (profile === undefined) return { kind: 'refused', reason: 'nobody' };
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
 * The profile without these of its identities, which it remembers by their hashes. What was written under them stays:
 * nobody can tell by which identity a value came.
 */
export function applyUnlink(profile: Profile, identities: readonly Identity[], now: number): AppliedUnlink {
  const taken = new Set(identities.map(identityKey));
  const unlinked = joinUnlinked(
    profile.unlinked,
    identities.map((identity) => ({ hash: identityHash(profile, identity), ts: now })),
  );
  const after = revised(
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
