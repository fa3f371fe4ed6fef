import { identityHash } from './identity.ts';
import { compareText } from './order.ts';
import type { Profile, UnlinkedIdentity } from './profile.ts';

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
