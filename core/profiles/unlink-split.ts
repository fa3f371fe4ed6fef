import { timeOfId } from '../primitives/ids.ts';
import { identityHash, identityKey } from './identity/identity.ts';
import { PERSON } from './identity/identity-limits.ts';
import {
  firstAlias,
  isRef,
  joinShared,
  lastMention,
  refOf,
  sameIdentity,
  sharedOf,
  withNamed,
  withoutShared,
} from './links.ts';
import { changeOf, joinUnlinked, withHidden, withNextVersion } from './merge.ts';
import {
  type FirstAlias,
  type HeldIdentity,
  type HiddenValues,
  type Identity,
  MAX_PROFILE_BYTES,
  type Mentions,
  type NamedElsewhere,
  type Profile,
  type Register,
  type UnlinkedIdentity,
} from './profile.ts';
import { DEFAULT_PROFILE_BOUNDS, exceedsBytes, withRoom } from './profile-bounds.ts';
import type {
  LostValues,
  ProfileChange,
  ProfileUnlink,
  SplitRefusal,
  UnattributedValues,
  UnlinkRefusal,
} from './profile-store.ts';
import { compareText, joinValues, mapRegisters, withoutOrigin, withoutOrigins } from './registers.ts';

/** Blocked identities that a profile may have beyond its bound in bytes: more than it may have identities. */
const MAX_BLOCKS_BEYOND = 1_000;

type UnlinkDecision =
  /** The identities are a part of the profile that becomes one of its own. */
  | ({ readonly kind: 'split'; readonly before: Profile } & TakenPart)
  | ({
      readonly kind: 'changed';
      readonly before: Profile;
      readonly notHeld: readonly number[];
    } & SplitProfile)
  | { readonly kind: 'refused'; readonly reason: UnlinkRefusal; readonly elsewhere?: readonly number[] };

/**
 * Decides an unlink, for every store alike. `owners`: of its identities, by index; `named`: the profile of its ucid, undefined
 * where there is none; `newUcid`: for a part that becomes a profile.
 */
export function decideUnlink(
  unlink: Pick<ProfileUnlink, 'ucid' | 'identities' | 'bounds'>,
  owners: readonly (Profile | undefined)[],
  named: Profile | undefined,
  now: number,
  newUcid: () => string,
): UnlinkDecision {
  if (unlink.ucid !== undefined && named === undefined) return { kind: 'refused', reason: 'no_profile' };
  const profiles = new Map(
    [named, ...owners].flatMap((profile) => (profile === undefined ? [] : [[profile.ucid, profile]])),
  );
  const [before, ...others] = profiles.values();
  if (before === undefined) return { kind: 'refused', reason: 'no_profile' };
  if (others.length > 0) {
    const elsewhere = owners.flatMap((owner, at) =>
      owner === undefined || owner.ucid === before.ucid ? [] : [at],
    );
    return { kind: 'refused', reason: 'several_profiles', elsewhere };
  }
  const notHeld = owners.flatMap((owner, at) => (owner === undefined ? [at] : []));
  const part = notHeld.length > 0 ? undefined : partUnlinked(before, unlink.identities);
  const taken = part && takePart(before, part, newUcid(), now, 'call');
  if (taken !== undefined) return { kind: 'split', before, ...taken };
  const applied = applyUnlink(before, unlink, now);
  return applied.kind === 'refused' ? applied : { ...applied, before, notHeld };
}

/** A part of a profile, and the split that makes it a profile of its own. */
export interface TakenPart {
  /** The profile with the part as one that was merged into it; the profile itself where it is so already. */
  readonly marked: Profile;
  readonly ucid: string;
  /** The part is that of the given identities; else that of all others. */
  readonly isNamed: boolean;
  readonly split: Extract<AppliedSplit, { kind: 'split' }>;
}

/** Takes identities out of the profile; undefined where the split is refused. */
export function takePart(
  profile: Profile,
  identities: readonly HeldIdentity[],
  freshUcid: string,
  now: number,
  cause: SplitCause,
): TakenPart | undefined {
  const { profile: marked, ucid, isNamed } = asPart(profile, identities, freshUcid);
  const split = applySplit(marked, ucid, now, cause);
  return split.kind === 'refused' ? undefined : { marked, ucid, isNamed, split };
}

type AppliedUnlink =
  | ({ readonly kind: 'changed' } & SplitProfile)
  | { readonly kind: 'refused'; readonly reason: Extract<UnlinkRefusal, 'too_large'> };

/**
 * Removes the identities from the profile, which remembers them by hash. Values stay: nobody can tell by which
 * identity they came. Identities that the profile does not have are blocked too, so the blocks of a large profile are
 * bounded.
 */
export function applyUnlink(
  profile: Profile,
  { identities, bounds = DEFAULT_PROFILE_BOUNDS }: Pick<ProfileUnlink, 'identities' | 'bounds'>,
  now: number,
): AppliedUnlink {
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
  const most = unlinked.length > MAX_BLOCKS_BEYOND ? withRoom(bounds).bytes : MAX_PROFILE_BYTES;
  for (const unlinkedProfile of [after, withoutOrigins(after)]) {
    const text = JSON.stringify(unlinkedProfile);
    if (!exceedsBytes(text, most))
      return { kind: 'changed', profile: unlinkedProfile, text, change: changeOf(profile, unlinkedProfile) };
  }
  return { kind: 'refused', reason: 'too_large' };
}

/** A profile after an unlink, or one of the two after a split. */
export interface SplitProfile {
  readonly profile: Profile;
  /** The JSON of `profile`. */
  readonly text: string;
  readonly change: ProfileChange;
}

export type SplitCause = 'call' | 'event';

export type AppliedSplit =
  | {
      readonly kind: 'split';
      readonly survivor: SplitProfile;
      /** The profile that was split off. */
      readonly apart: SplitProfile;
      readonly kept: UnattributedValues;
      readonly lost: LostValues;
    }
  | { readonly kind: 'refused'; readonly reason: Exclude<SplitRefusal, 'unknown_ucid'> };

/**
 * Undoes the merge of `ucid` into the profile: the identities that came from `ucid`, and what was written about them before
 * and after, become a profile again, as if they had never been merged. Values that name no part stay with the survivor.
 *
 * - `call`: each of the two records the identities of the other as unlinked, so that no event merges them again.
 * - `event`: the identities are somebody else's. Both sides remember what they named of the other.
 *
 * The restored profile has a higher version than every change that named its ucid as linked.
 */
export function applySplit(
  merged: Profile,
  ucid: string,
  now: number,
  cause: SplitCause = 'call',
): AppliedSplit {
  if (!merged.linked.includes(ucid)) return { kind: 'refused', reason: 'not_merged' };
  const isCalled = cause === 'call';
  const { theirs, mine } = parted(merged, ({ from }) => from === ucid, ucid, isCalled);
  const values = [theirs.identities, theirs.attributes, theirs.preferences, theirs.consents];
  if (values.every((items) => items.length === 0)) return { kind: 'refused', reason: 'unknown_origin' };
  const { elsewhere: _, hidden: __, ...rest } = merged;
  const block = (profile: Profile, identities: readonly HeldIdentity[]) =>
    withUnlinked(profile, isCalled ? unlinkedBy(merged, identities, now) : (merged.unlinked ?? []));
  const left = withNextVersion(
    merged,
    block(
      ofOnePart(
        withoutShared(
          { ...rest, ...mine, linked: merged.linked.filter((other) => other !== ucid) },
          theirs.identities,
        ),
      ),
      theirs.identities,
    ),
    now,
  );
  const { org, region, version, updated_ts } = left;
  const back = block(
    ofOnePart({
      org,
      region,
      ucid,
      created_ts: Math.min(timeOfId(ucid) ?? merged.created_ts, updated_ts),
      updated_ts,
      version,
      ...theirs,
      ...(isCalled
        ? sharedOf(merged, theirs.identities)
        : withLosers(merged, theirs.identities, mine.identities)),
      linked: [],
    }),
    mine.identities,
  );
  const survivor = withinSize(merged, left);
  const apart = withinSize(back, back);
  if (survivor === undefined || apart === undefined) return { kind: 'refused', reason: 'too_large' };
  return {
    kind: 'split',
    survivor,
    apart,
    kept: unattributedValuesOf(merged),
    lost: isPartial(merged) ? valuesOfOne(left, back) : NO_LOST,
  };
}

/**
 * The profile with these identities, or the others, as a part of their own with a ucid, as if they had been merged: so
 * `applySplit` takes them out. Its own ucid stays with the identities that it was made of. The profile itself where that is so.
 * `isNamed`: the part is that of these identities.
 */
function asPart(
  profile: Profile,
  identities: readonly HeldIdentity[],
  freshUcid: string,
): { readonly profile: Profile; readonly ucid: string; readonly isNamed: boolean } {
  const named = new Set(identities);
  const isOf = (ucid: string, areNamed: boolean) => {
    const own = profile.identities.filter(({ from = profile.ucid }) => from === ucid);
    return own.length > 0 && own.every((identity) => named.has(identity) === areNamed);
  };
  const takesNamed = !isOf(profile.ucid, true);
  const ucid = profile.linked.find((linked) => isOf(linked, takesNamed)) ?? freshUcid;
  const isTaken = (identity: HeldIdentity) => named.has(identity) === takesNamed;
  const isTheirs = registerSide(profile, isTaken, undefined, false);
  let isPart = profile.linked.includes(ucid);
  const mark = <Item extends { readonly from?: string }>(one: Item, isMarked: boolean): Item => {
    if (!isMarked || one.from === ucid) return one;
    isPart = false;
    return { ...one, from: ucid };
  };
  const marked = mapRegisters(profile, (one) =>
    mark(one, isTheirs(one) && (one.from === undefined || !isRef(one.from))),
  );
  const marks = profile.identities.map((one) => mark(one, isTaken(one)));
  if (isPart) return { profile, ucid, isNamed: takesNamed };
  return {
    profile: {
      ...marked,
      ...withoutUndefined(joinValues(withHidden(marked), NO_HIDDEN, true)),
      identities: marks,
      linked: [...new Set([...profile.linked, ucid])].sort(compareText),
    },
    ucid,
    isNamed: takesNamed,
  };
}

/**
 * The identities that an unlink takes out as a profile of their own, with what their own sources said: all of a part that has
 * values, and what was named with them alone. Undefined where the unlinked identities are no such part.
 */
function partUnlinked(
  profile: Profile,
  identities: readonly Identity[],
): readonly HeldIdentity[] | undefined {
  if (profile.hidden === undefined && profile.linked.length === 0) return undefined;
  const all = profile.identities;
  const taken = new Set(all.filter((one) => identities.some(sameIdentity(one))));
  const pinned = new Set([...taken].flatMap(({ by, from }) => (by === undefined ? [from] : [])));
  if (all.some((one) => one.by === undefined && pinned.has(one.from) && !taken.has(one))) return undefined;
  const refs = new Map(all.map((one) => [refOf(profile, one), one]));
  for (let size = -1; size < taken.size; ) {
    size = taken.size;
    for (const [ref, { by, ...one }] of refs) {
      const named = Object.keys(by ?? {}).flatMap((principal) => refs.get(principal) ?? []);
      if (by?.[ref] === undefined && named.length > 0 && named.every((each) => taken.has(each)))
        taken.add(refs.get(ref) ?? one);
    }
  }
  if (taken.size === all.length) return undefined;
  const isTheirs = registerSide(profile, (one) => taken.has(one), undefined, false);
  const { attributes, preferences, consents, hidden = NO_HIDDEN } = profile;
  const lists = [attributes, preferences, consents, hidden.attributes, hidden.preferences, hidden.consents];
  return lists.some((items) => items.some(isTheirs)) ? [...taken] : undefined;
}

type Part = Pick<Profile, 'identities' | 'attributes' | 'preferences' | 'consents' | 'hidden' | 'elsewhere'>;

/** Both sides of a profile, each as if the other had never been there. */
function parted(
  profile: Profile,
  isTheirs: (identity: HeldIdentity) => boolean,
  ucid: string,
  isCalled: boolean,
): { readonly theirs: Part; readonly mine: Part } {
  const refs = new Map(profile.identities.map((identity) => [refOf(profile, identity), identity]));
  const sideOf = (ref: string) => {
    const identity = refs.get(ref);
    return identity === undefined ? undefined : isTheirs(identity);
  };
  const named = new Map<boolean, NamedElsewhere[]>([
    [true, []],
    [false, []],
  ]);
  const keep = (side: boolean, ref: string, by: Mentions) => {
    if (Object.keys(by).length > 0) named.get(side)?.push({ ref, by });
  };
  const mentionsBy = (by: Mentions, isWanted: (side: boolean | undefined) => boolean): Mentions =>
    Object.fromEntries(Object.entries(by).filter(([ref]) => isWanted(sideOf(ref))));
  const identities = [...refs].map(([ref, held]) => {
    const own = isTheirs(held);
    const identity = withFirstAlias(held, ref, (by) => !isCalled || sideOf(by) !== !own);
    if (identity.by === undefined) return identity;
    const crossing = mentionsBy(identity.by, (side) => side === !own);
    if (Object.keys(crossing).length === 0) return identity;
    // After a call no event links the two again.
    if (!isCalled) keep(!own, ref, crossing);
    const by = mentionsBy(identity.by, (side) => side !== !own);
    return { ...identity, by, ts: lastMention(by, identity.ts) };
  });
  for (const { ref, by } of profile.elsewhere ?? [])
    for (const side of [true, false])
      keep(
        side,
        ref,
        mentionsBy(by, (one) => (one ?? false) === side),
      );
  const isTheirRegister = registerSide(profile, isTheirs, ucid, isCalled);
  const part = (side: boolean): Part => {
    const own = <Item extends Register>(items: readonly Item[]) =>
      items.filter((item) => isTheirRegister(item) === side);
    const of = ({ attributes, preferences, consents }: Omit<HiddenValues, 'partial'>) => ({
      attributes: own(attributes),
      preferences: own(preferences),
      consents: own(consents),
    });
    const { hidden } = profile;
    const all = joinValues(
      { ...of(profile), hidden: hidden === undefined ? undefined : { ...hidden, ...of(hidden) } },
      NO_HIDDEN,
    );
    const { elsewhere } = withNamed({ ...profile, identities: [], elsewhere: [] }, named.get(side) ?? []);
    return {
      ...withoutUndefined(all),
      identities: identities.filter((_, at) => isTheirs(profile.identities[at] as HeldIdentity) === side),
      ...(elsewhere === undefined || elsewhere.length === 0 ? {} : { elsewhere }),
    };
  };
  return { theirs: part(true), mine: part(false) };
}

/** A previous id with the first of the aliases that still count, also where the user of that alias goes to the other side. */
function withFirstAlias(held: HeldIdentity, ref: string, counts: (by: string) => boolean): HeldIdentity {
  if (held.type !== PERSON) return held;
  const { alias: known, ...identity } = held;
  const aliases = Object.entries(held.by ?? {}).flatMap(([by, [ts, , order]]): readonly FirstAlias[] =>
    by === ref ? [] : [[ts, order, by]],
  );
  const alias = (known === undefined ? aliases : [known, ...aliases])
    .filter(([, , by]) => counts(by))
    .reduce<FirstAlias | undefined>(firstAlias, undefined);
  return alias === known ? held : alias === undefined ? identity : { ...identity, alias };
}

/** On which side a value belongs: with the identity that it came by. */
function registerSide(
  profile: Profile,
  isTheirs: (identity: HeldIdentity) => boolean,
  ucid: string | undefined,
  isCalled: boolean,
): (register: Pick<Register, 'from'>) => boolean {
  const isPinned = ({ by }: HeldIdentity) => by === undefined;
  const firstOf = (identities: readonly HeldIdentity[]) => identities.find(isPinned) ?? identities[0];
  const sides = new Map<string, boolean>();
  return ({ from = '' }) => {
    const known = sides.get(from);
    if (known !== undefined) return known;
    let identity: HeldIdentity | undefined;
    if (from === '') identity = isCalled ? undefined : firstOf(profile.identities);
    else if (isRef(from)) identity = profile.identities.find((one) => refOf(profile, one) === from);
    else identity = firstOf(profile.identities.filter((one) => one.from === from));
    const side = from === ucid || (identity !== undefined && isTheirs(identity));
    sides.set(from, side);
    return side;
  };
}

/** A profile without merges names no ucids; what its pinned identities say has no origin. */
function ofOnePart(profile: Profile): Profile {
  if (profile.linked.length > 0) return profile;
  const nodes = new Map<string | undefined, HeldIdentity>();
  const nodeOf = (from: string) => {
    const known = nodes.get(from);
    if (known !== undefined) return known;
    const all = profile.identities.filter((one) => (isRef(from) ? refOf(profile, one) : one.from) === from);
    const node = all.find(({ by }) => by === undefined) ?? all[0];
    if (node !== undefined) nodes.set(from, node);
    return node;
  };
  const { hidden = NO_HIDDEN, ...mapped } = mapRegisters(profile, (one) => {
    if (one.from === undefined) return one;
    const node = nodeOf(one.from);
    return node?.by === undefined ? withoutOrigin(one) : { ...one, from: refOf(profile, node) };
  });
  const { hidden: left, ...values } = joinValues(mapped, hidden);
  const still = left === undefined || !isPartial(profile) ? left : { ...left, partial: true as const };
  const identities = profile.identities.map(withoutOrigin);
  return { ...mapped, ...withoutUndefined({ ...values, hidden: still }), identities };
}

const NO_HIDDEN = { attributes: [], preferences: [], consents: [] } as const;

function withoutUndefined({ hidden, ...values }: ReturnType<typeof joinValues>) {
  return hidden === undefined ? values : { ...values, hidden };
}

/** Users of the one side that named an identity of the other one count as its claimants, as if they had come second. */
function withLosers(
  merged: Profile,
  theirs: readonly HeldIdentity[],
  mine: readonly HeldIdentity[],
): Pick<Profile, 'shared'> {
  const users = new Set(mine.flatMap((one) => (one.type === PERSON ? [refOf(merged, one)] : [])));
  const shared = merged.identities.flatMap((identity) => {
    const claimants = Object.keys(identity.by ?? {}).filter((ref) => users.has(ref));
    const isTheirs = identity.type !== PERSON && theirs.some(sameIdentity(identity));
    return isTheirs && claimants.length > 0 ? [{ hash: identityHash(merged, identity), claimants }] : [];
  });
  const all = joinShared(sharedOf(merged, theirs).shared, shared);
  return all.length === 0 ? {} : { shared: all };
}

/** Whether values of parts may have been lost. */
function isPartial({ hidden, linked }: Profile): boolean {
  return hidden === undefined ? linked.length > 0 : hidden.partial === true;
}

const NO_LOST: LostValues = { attributes: [], preferences: [], consents: [] };

/** The values that one of the two has alone: the other may have had an older one, which the merge lost. */
function valuesOfOne(left: Profile, back: Profile): LostValues {
  const alone = <Item>(mine: readonly Item[], theirs: readonly Item[], nameOf: (item: Item) => string) => {
    const [some, others] = [mine, theirs].map((items) => new Set(items.map(nameOf)));
    return [...mine, ...theirs].filter((item) => !(some?.has(nameOf(item)) && others?.has(nameOf(item))));
  };
  const name = (one: { readonly name: string }) => one.name;
  return {
    attributes: alone(left.attributes, back.attributes, ({ path }) => JSON.stringify(path)).map(
      ({ path }) => path,
    ),
    preferences: alone(left.preferences, back.preferences, name).map(name),
    consents: alone(left.consents, back.consents, name).map(name),
  };
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
