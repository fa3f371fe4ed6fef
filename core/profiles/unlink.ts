import { changeOf } from './changes.ts';
import { revised } from './fold.ts';
import { identityHash, identityKey } from './identity.ts';
import { compareText } from './order.ts';
import { type Identity, MAX_PROFILE_BYTES, type Profile, type UnlinkedIdentity } from './profile.ts';
import type { ProfileChange, ProfileUnlink, UnlinkRefusal } from './profile-store.ts';

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
      ...profile,
      identities: profile.identities.filter((identity) => !taken.has(identityKey(identity))),
      unlinked,
    },
    now,
  );
  const text = JSON.stringify(after);
  if (Buffer.byteLength(text) > MAX_PROFILE_BYTES) return { kind: 'refused', reason: 'too_large' };
  return { kind: 'changed', profile: after, text, change: changeOf(profile, after) };
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

/** The profile without blocks on identities that it has: whatever let them in was an explicit write. */
export function withoutLiftedBlocks(profile: Profile): Profile {
  const { unlinked, ...rest } = profile;
  if (unlinked === undefined) return profile;
  const held = new Set(profile.identities.map((identity) => identityHash(profile, identity)));
  const left = unlinked.filter(({ hash }) => !held.has(hash));
  if (left.length === unlinked.length) return profile;
  return left.length === 0 ? rest : { ...rest, unlinked: left };
}
