import { identityKey } from './identity/identity.ts';
import { DEFAULT_LIMITS, isTooMany, PERSON, withoutOldest } from './identity/identity-limits.ts';
import { type FoundOwners, type Linking, linkingOf } from './linking.ts';
import {
  hasUser,
  isRef,
  refOf,
  sameIdentity,
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
  type ProfileExcess,
  valuesOf,
  withRoom,
} from './profile-bounds.ts';
import type { LeftOut, ProfileChange, ProfileWrite } from './profile-store.ts';
import { joinValues, keptIfSame, stampAttributes, stampNamed, withoutOrigins } from './registers.ts';

/** What becomes of a write. */
export type WriteDecision =
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
  | Exclude<Linking, { kind: 'linked' }>;

/**
 * Decides a write from the owners of its identities, for every store alike. `newUcid`: of the profile, if the write creates
 * one with these identities.
 */
export function decideWrite(
  write: ProfileWrite,
  found: FoundOwners,
  now: number,
  newUcid: (linked: readonly Identity[]) => string,
): WriteDecision {
  const linking = linkingOf(write, found);
  if (linking.kind !== 'linked') return linking;
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

/** What an event is about, in the profiles that it joins. */
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
