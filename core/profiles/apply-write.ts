import { joinAttributes, stampAttributes } from './attributes.ts';
import { changeOf } from './changes.ts';
import { DEFAULT_LIMITS, isTooMany, withoutOldest } from './identity/identity-limits.ts';
import { joinIdentities, mergeContent, withContent, withNextVersion, withoutLiftedBlocks } from './merge.ts';
import { type Identity, LEAST_REGISTER_BYTES, MAX_PROFILE_BYTES, type Profile } from './profile.ts';
import type { ProfileChange, ProfileRefusal, ProfileWrite } from './profile-store.ts';
import { joinNamed, keptIfSame, stampNamed, withoutOrigins } from './registers.ts';
import { withClaimant, withoutShared } from './shared-identities.ts';

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
  | {
      readonly kind: 'refused';
      readonly reason: Extract<ProfileRefusal, 'too_many_identities' | 'too_large'>;
    };

/**
 * Applies a write: merges the other profiles into the first, then writes the values. `profiles` are those of
 * `linkingOf`, or a `freshProfile`; `identities` those that `linkingOf` admitted.
 */
export function applyWrite(
  [survivor, ...others]: readonly [Profile, ...Profile[]],
  identities: readonly Identity[],
  write: ProfileWrite,
  now: number,
): AppliedWrite {
  if (cannotFit(write)) return { kind: 'refused', reason: 'too_large' };
  let merged = survivor;
  for (const other of others) {
    merged = mergeContent(merged, other);
    if (cannotFit(merged)) return { kind: 'refused', reason: 'too_large' };
  }
  const { after, dropped } = withWrite(merged, identities, write, now);
  let profile = withVersionAbove(others, withNextVersion(survivor, after, now));
  if (profile === survivor) return { kind: 'unchanged', profile, dropped };
  if (isTooMany(profile.identities)) return { kind: 'refused', reason: 'too_many_identities' };
  let text = JSON.stringify(profile);
  if (exceedsBytes(text, MAX_PROFILE_BYTES)) {
    const bare = withoutOrigins(profile);
    if (bare === profile) return { kind: 'refused', reason: 'too_large' };
    profile = bare;
    text = JSON.stringify(bare);
    if (exceedsBytes(text, MAX_PROFILE_BYTES)) return { kind: 'refused', reason: 'too_large' };
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

function withWrite(
  profile: Profile,
  identities: readonly Identity[],
  write: ProfileWrite,
  now: number,
): { readonly after: Profile; readonly dropped: readonly Identity[] } {
  const { attributes, preferences, consents, ts, claimedBy, limits } = write;
  if (claimedBy !== undefined) {
    const [identity] = write.identities;
    const after = identity === undefined ? profile : withClaimant(profile, identity, claimedBy, limits);
    return { after, dropped: [] };
  }
  const held = identities.map(({ type, value }) => ({ type, value, ts: ts ?? now }));
  const all = joinIdentities(profile.identities, held);
  const { kept, dropped } = withoutOldest(all, limits ?? DEFAULT_LIMITS);
  const after = withContent(profile, {
    created_ts: profile.created_ts,
    linked: profile.linked,
    identities: kept === all ? all : keptIfSame(profile.identities, kept),
    attributes: joinAttributes(profile.attributes, stampAttributes(profile.attributes, attributes, ts, now)),
    preferences: joinNamed(profile.preferences, stampNamed(profile.preferences, preferences, ts, now)),
    consents: joinNamed(profile.consents, stampNamed(profile.consents, consents, ts, now)),
  });
  return { after: withoutShared(withoutLiftedBlocks(after), dropped), dropped };
}

/**
 * Whether there are so many registers that no values are small enough. Checked before merging, which costs more than
 * counting.
 */
function cannotFit({
  attributes,
  preferences,
  consents,
}: Pick<Profile | ProfileWrite, 'attributes' | 'preferences' | 'consents'>): boolean {
  const registers = attributes.length + preferences.length + consents.length;
  return registers * LEAST_REGISTER_BYTES > MAX_PROFILE_BYTES;
}

/** Counts bytes only where the length allows an excess: a UTF-16 unit has at most three bytes. */
function exceedsBytes(text: string, bytes: number): boolean {
  return text.length * 3 > bytes && Buffer.byteLength(text) > bytes;
}
