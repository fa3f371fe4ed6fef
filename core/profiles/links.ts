import { defined } from '../primitives/defined.ts';
import { identityHash, identityKey } from './identity/identity.ts';
import { DEFAULT_LIMITS, DEVICE, type IdentityLimits, PERSON } from './identity/identity-limits.ts';
import type {
  FirstAlias,
  HeldIdentity,
  Identity,
  Mention,
  Mentions,
  NamedElsewhere,
  Profile,
  ProfileScope,
  SharedIdentity,
} from './profile.ts';
import type { CompetingClaim, ProfileWrite } from './profile-store.ts';
import { compareText, joinValues, keptIfSame, mapRegisters } from './registers.ts';

/*
 * Which identities events make one person is a function of the set of events, not of their arrival (decision 14).
 *
 * An event is about its first identity, the principal; it names the others. Each naming is a link with the time of the first
 * such event. The links count in the order of their times, as if the events had been processed in that order: a link joins
 * what it connects, unless both sides have a user already. Another user_id is named by an alias alone: of all aliases with
 * the same previous id the first one counts, and joins its two users, unless events were about the new one before it. An event
 * that arrives late may so take an identity, and all that came with it, to another profile.
 *
 * An event reads the profiles of its identities only, so whatever decides about a link is in the profile of one of its ends: a
 * link that lost to earlier ones never counts again, and a previous id keeps its first alias although that may join nothing.
 *
 * Identities that an explicit call named together, or that a release before 0.3 stored, are pinned: no event parts them.
 */

/** Characters of a reference: among the identities of a profile, the chance of a collision is 1 in 10^16. */
const REF_CHARACTERS = 12;

/** Refers to an identity within its scope. */
export function refOf(scope: ProfileScope, identity: Identity): string {
  return identityHash(scope, identity).slice(0, REF_CHARACTERS);
}

/** Whether the origin of a value is an identity, not a ucid. */
export function isRef(from: string): boolean {
  return from.length === REF_CHARACTERS;
}

/** Merges two records of mentions; returns `left` itself when `right` adds nothing. */
export function joinMentions(left: Mentions, right: Mentions): Mentions {
  let joined: Record<string, Mention> | undefined;
  for (const [ref, mention] of Object.entries(right)) {
    const held = left[ref];
    const [first, last, order] = held === undefined || isEarlier(mention, held) ? mention : held;
    const newest = Math.max(last, held?.[1] ?? last, mention[1]);
    if (held !== undefined && first === held[0] && order === held[2] && newest === held[1]) continue;
    joined ??= { ...left };
    joined[ref] = [first, newest, order];
  }
  return joined ?? left;
}

function isEarlier(one: Mention, other: Mention): boolean {
  return one[0] < other[0] || (one[0] === other[0] && one[2] < other[2]);
}

/** The one that counts of two aliases of a previous id; `left` of equals. */
export function firstAlias(
  left: FirstAlias | undefined,
  right: FirstAlias | undefined,
): FirstAlias | undefined {
  if (left === undefined || right === undefined) return left ?? right;
  const order = right[0] - left[0] || right[1] - left[1] || compareText(right[2], left[2]);
  return order < 0 ? right : left;
}

/** The time of the last mention; `otherwise` without any. */
export function lastMention(by: Mentions, otherwise: number): number {
  const times = Object.values(by).map(([, last]) => last);
  return times.length === 0 ? otherwise : Math.max(...times);
}

/** Whether an identity is the same, an e-mail address raw or hashed. */
export function sameIdentity(identity: Identity): (other: Identity) => boolean {
  let key: string | undefined;
  return (other) => {
    if (other.type === identity.type) return other.value === identity.value;
    if (!other.type.startsWith('email') || !identity.type.startsWith('email')) return false;
    key ??= identityKey(identity);
    return identityKey(other) === key;
  };
}

/** The pinned identities of a profile; the first one stands for all. */
function coreOf({ identities }: Profile): readonly HeldIdentity[] {
  const core = identities.filter(({ by }) => by === undefined);
  const user = core.findIndex(({ type }) => type === PERSON);
  return user > 0 ? [...core.slice(user), ...core.slice(0, user)] : core;
}

export function hasUser({ identities }: Profile): boolean {
  return identities.some(({ type }) => type === PERSON);
}

/**
 * The profile with its pinned identities linked to each other instead, and their values marked: so an event joins it to a
 * profile that it can be taken from again.
 */
export function unpinned(profile: Profile): Profile {
  const core = coreOf(profile);
  const [center] = core;
  if (center === undefined) return profile;
  const ref = refOf(profile, center);
  const identities = profile.identities.map((identity) => {
    if (identity.by !== undefined) return identity;
    const own = { [refOf(profile, identity)]: [0, identity.ts, 0] } as const;
    const known = identity.type === PERSON ? { since: identity.since ?? ([0, 0] as const) } : {};
    return { ...identity, ...known, by: identity === center ? own : { ...own, [ref]: [0, 0, 0] as const } };
  });
  const isOfCenter = (from: string | undefined) => from === undefined || from === center.from;
  const marked = mapRegisters(profile, (one) => (isOfCenter(one.from) ? { ...one, from: ref } : one));
  const { hidden, ...values } = joinValues(marked, { attributes: [], preferences: [], consents: [] });
  return { ...marked, ...values, ...(hidden === undefined ? {} : { hidden }), identities };
}

/** Adds what principals of the profile named; removes what the profile has by now. */
export function withNamed(profile: Profile, named: readonly NamedElsewhere[]): Profile {
  if (profile.elsewhere === undefined && named.length === 0) return profile;
  const { elsewhere = [], ...rest } = profile;
  const all = new Map(elsewhere.map((one) => [one.ref, one]));
  for (const one of named) {
    const held = all.get(one.ref);
    const by = held === undefined ? one.by : joinMentions(held.by, one.by);
    if (by !== held?.by) all.set(one.ref, { ref: one.ref, by });
  }
  const identities = profile.identities.map((identity) => {
    const one = all.size === 0 ? undefined : all.get(refOf(profile, identity));
    if (one === undefined) return identity;
    all.delete(one.ref);
    if (identity.by === undefined) {
      const ts = lastMention(one.by, 0);
      return ts > identity.ts ? { ...identity, ts } : identity;
    }
    const by = joinMentions(identity.by, one.by);
    return by === identity.by ? identity : { ...identity, by, ts: lastMention(by, identity.ts) };
  });
  const left = newest([...all.values()]);
  if (
    keptIfSame(elsewhere, left) === elsewhere &&
    keptIfSame(profile.identities, identities) === profile.identities
  )
    return profile;
  return left.length === 0 ? { ...rest, identities } : { ...rest, identities, elsewhere: left };
}

/** Identities of others that a profile remembers to have been named; beyond, those that were not named for longest go. */
const MAX_ELSEWHERE = 100;

function newest(all: readonly NamedElsewhere[]): readonly NamedElsewhere[] {
  const kept =
    all.length <= MAX_ELSEWHERE
      ? [...all]
      : all.toSorted((a, b) => lastMention(b.by, 0) - lastMention(a.by, 0)).slice(0, MAX_ELSEWHERE);
  return kept.sort((a, b) => compareText(a.ref, b.ref));
}

/** An identity of an event, and the live profile that has it. */
interface LinkedIdentity {
  readonly identity: Identity;
  readonly owner: Profile | undefined;
}

export type Relinking =
  /** `apart`: identities that belong to somebody else. */
  | { readonly kind: 'linked'; readonly apart: ReadonlySet<Identity> }
  /** The identities do not belong to this profile any more; take them out first. */
  | { readonly kind: 'detach'; readonly profile: Profile; readonly identities: readonly HeldIdentity[] };

const NOBODY: ReadonlySet<Identity> = new Set();

/** Decides what belongs together with the links of an event at this time. `named`: the identities behind the principal. */
export function relink(
  scope: ProfileScope,
  principal: LinkedIdentity,
  named: readonly LinkedIdentity[],
  at: LinkTime,
): Relinking {
  const profiles = new Set([principal, ...named].flatMap(({ owner }) => owner ?? []));
  if (isPlain(principal, named, profiles)) return { kind: 'linked', apart: NOBODY };
  const graph = new Graph(scope);
  for (const profile of profiles) graph.add(profile);
  const about = graph.node(principal.identity);
  graph.isAbout(about, at);
  for (const { identity } of named) graph.link(about, graph.node(identity), at);
  graph.join();
  for (const profile of profiles) {
    const identities = graph.takenFrom(profile);
    if (identities.length > 0) return { kind: 'detach', profile, identities };
  }
  const all = named.map(({ identity }) => identity);
  return { kind: 'linked', apart: new Set(all.filter((one) => !graph.areJoined(about, graph.node(one)))) };
}

/** The identities that an alias by a user of another profile parts from this one, as it is the first of the previous id. */
export function takenByAlias(
  profile: Profile,
  previous: Identity,
  alias: FirstAlias,
): readonly HeldIdentity[] {
  const graph = new Graph(profile);
  graph.add(profile);
  graph.isAliased(graph.node(previous), alias);
  graph.join();
  return graph.takenFrom(profile);
}

/** Nearly every event: all that it names is unknown, or of its own profile, or of nobody yet. */
function isPlain(
  principal: LinkedIdentity,
  named: readonly LinkedIdentity[],
  profiles: ReadonlySet<Profile>,
): boolean {
  if (profiles.size > 1 || named.some(({ identity }) => identity.type === PERSON)) return false;
  const [profile] = profiles;
  if (profile === undefined || principal.identity.type !== PERSON) return true;
  return principal.owner === undefined ? !hasUser(profile) : !hasAlias(profile);
}

/** Whether the profile has several users: whether an alias joins them may depend on the times of further events. */
export function hasAlias({ identities }: Profile): boolean {
  return identities.filter(({ type }) => type === PERSON).length > 1;
}

interface Node {
  readonly ref: string;
  readonly isUser: boolean;
  /** The place of its type in an event. */
  readonly rank: number;
  /** Of a user: when the first event was about it. Absent: no event is, an alias names it. */
  since: LinkTime | undefined;
  /** Of a user: the first alias of it that is known, also by a user who is not in the graph. */
  alias: FirstAlias | undefined;
  /** Towards the node that stands for all that are joined; itself where it is that. */
  parent: Node;
  /** Of the node that stands for others: whether there is a user among them. */
  hasUser: boolean;
}

/** The order of links of the same time: the types of an event's identities, any other first. */
const TYPES: readonly string[] = [PERSON, DEVICE, 'email', 'cellphone'];

interface LinkTime {
  readonly ts: number;
  readonly order: number;
}

const BEFORE_ALL: LinkTime = { ts: Number.NEGATIVE_INFINITY, order: 0 };

function isBefore(one: LinkTime, other: LinkTime): boolean {
  return one.ts < other.ts || (one.ts === other.ts && one.order < other.order);
}

/** An alias joins its users unless events were about the new one before it; the old one may be no user at all. */
function joinsUsers(from: Node, to: Node, [ts, order]: FirstAlias): boolean {
  return to.since === undefined || (from.since !== undefined && !isBefore(from.since, { ts, order }));
}

interface Link extends LinkTime {
  readonly from: Node;
  readonly to: Node;
}

/** The identities of the profiles that an event touches, and all links between them. */
class Graph {
  readonly #nodes = new Map<string, Node>();
  readonly #links: Link[] = [];
  readonly #elsewhere: Profile[] = [];
  readonly #scope: ProfileScope;

  constructor(scope: ProfileScope) {
    this.#scope = scope;
  }

  add(profile: Profile): void {
    const refs = profile.identities.map((identity) => refOf(profile, identity));
    for (const [at, identity] of profile.identities.entries()) this.#put(refs[at] ?? '', identity);
    // Identities that a principal named and the profile lost, by an unlink or a bound, are pinned to it.
    const connected = new Graph(profile);
    for (const [at, identity] of profile.identities.entries()) connected.#put(refs[at] ?? '', identity);
    for (const [at, { by }] of profile.identities.entries())
      for (const [ref, [ts, , order]] of Object.entries(by ?? {})) {
        const [from, to] = [this.#nodes.get(ref), this.#nodes.get(refs[at] ?? '')];
        if (from === undefined || to === undefined || from === to) continue;
        this.#links.push({ from, to, ts, order });
        connected.#union(connected.#nodes.get(ref), connected.#nodes.get(to.ref));
      }
    const center = this.#centerOf(profile);
    for (const [at, { by }] of profile.identities.entries()) {
      const ref = refs[at] ?? '';
      const [own, main] = [connected.#nodes.get(ref), connected.#nodes.get(center?.ref ?? '')];
      if (own === undefined || main === undefined) continue;
      const isLinked = (from: string) => connected.#nodes.has(from);
      if (by !== undefined && (root(own) === root(main) || Object.keys(by).every(isLinked))) continue;
      this.#union(center, this.#nodes.get(ref));
      connected.#union(main, own);
    }
    this.#elsewhere.push(profile);
  }

  node(identity: Identity): Node {
    const ref = refOf(this.#scope, identity);
    return this.#nodes.get(ref) ?? this.#put(ref, { ...identity, by: {} });
  }

  /** An event at this time is about the node. */
  isAbout(node: Node, at: LinkTime): void {
    if (node.since === undefined || isBefore(at, node.since)) node.since = at;
  }

  link(from: Node, to: Node, at: LinkTime): void {
    this.#links.push({ from, to, ...at });
  }

  isAliased(previous: Node, alias: FirstAlias | undefined): void {
    previous.alias = firstAlias(previous.alias, alias);
  }

  /** Joins what the links connect. Call once, after all links. */
  join(): void {
    for (const { elsewhere = [] } of this.#elsewhere)
      for (const { ref, by } of elsewhere)
        for (const [principal, [ts, , order]] of Object.entries(by)) {
          const [from, to] = [this.#nodes.get(principal), this.#nodes.get(ref)];
          if (from !== undefined && to !== undefined) this.#links.push({ from, to, ts, order });
        }
    const links = this.#links.toSorted(
      (a, b) =>
        a.ts - b.ts ||
        a.order - b.order ||
        a.to.rank - b.to.rank ||
        compareText(a.from.ref, b.from.ref) ||
        compareText(a.to.ref, b.to.ref),
    );
    for (const { from, to } of links)
      if (!to.isUser && !(root(from).hasUser && root(to).hasUser)) this.#union(from, to);
    for (const { from, to, ts, order } of links) if (to.isUser) this.isAliased(to, [ts, order, from.ref]);
    for (const to of this.#nodes.values()) {
      const from = to.alias === undefined ? undefined : this.#nodes.get(to.alias[2]);
      if (from !== undefined && to.alias !== undefined && joinsUsers(from, to, to.alias))
        this.#union(from, to);
    }
  }

  areJoined(one: Node, other: Node): boolean {
    return root(one) === root(other);
  }

  /** Identities of the profile that are not joined to what it is about, and belong together. */
  takenFrom(profile: Profile): readonly HeldIdentity[] {
    const nodes = profile.identities.map((identity) => this.#nodes.get(refOf(profile, identity)));
    const center = this.#centerOf(profile);
    const away = nodes.find((node) => node && center && root(node) !== root(center));
    if (away === undefined) return [];
    return profile.identities.filter((_, at) => {
      const node = nodes[at];
      return node !== undefined && root(node) === root(away);
    });
  }

  #centerOf(profile: Profile): Node | undefined {
    const center =
      coreOf(profile)[0] ?? profile.identities.find(({ type }) => type === PERSON) ?? profile.identities[0];
    return center === undefined ? undefined : this.#nodes.get(refOf(profile, center));
  }

  #put(
    ref: string,
    { type, by, since, alias }: Identity & Pick<HeldIdentity, 'by' | 'since' | 'alias'>,
  ): Node {
    const isUser = type === PERSON;
    const known = since === undefined ? undefined : { ts: since[0], order: since[1] };
    const node = {
      ref,
      isUser,
      rank: TYPES.indexOf(type),
      since: known ?? (by === undefined ? BEFORE_ALL : undefined),
      alias,
      hasUser: isUser,
    } as Omit<Node, 'parent'> & { parent?: Node };
    node.parent = node as Node;
    this.#nodes.set(ref, node as Node);
    return node as Node;
  }

  #union(one: Node | undefined, other: Node | undefined): void {
    if (one === undefined || other === undefined) return;
    const [kept, joined] = [root(one), root(other)];
    if (kept === joined) return;
    joined.parent = kept;
    kept.hasUser ||= joined.hasUser;
  }
}

function root(node: Node): Node {
  let at = node;
  while (at.parent !== at) {
    at.parent = at.parent.parent;
    at = at.parent;
  }
  return at;
}

/*
 * An address that a form fills in for everybody, or the id of a shared device, links people who have nothing to do
 * with each other. Only the number of different users that come with such a value gives it away, so that number is
 * bounded. Explicit writes merge users, and the merged profile lists them. Events keep users apart, so the owner of
 * the value records short hashes of the other users that came with it. Both count together; above the bound the
 * identity is set aside: it links nothing any more.
 */

/** Characters of a user's hash: among a thousand users, the chance of a collision is 1 in 10^15. */
const CLAIMANT_CHARACTERS = 12;

/** A hash that stands for a `user_id` of another profile, which must not be kept. */
function claimantOf(scope: ProfileScope, value: string): string {
  return identityHash(scope, { type: PERSON, value }).slice(0, CLAIMANT_CHARACTERS);
}

/** Whether more users than allowed came with an identity of the profile. A `user_id` is never set aside. */
export function isSetAside(
  profile: Profile,
  identity: Identity,
  { user_ids: bound }: IdentityLimits = DEFAULT_LIMITS,
): boolean {
  if (profile.shared === undefined || identity.type === PERSON) return false;
  const claimants = claimantsOn(profile, identity);
  if (claimants.length === 0) return false;
  return new Set([...claimants, ...claimantsIn(profile)]).size > bound;
}

/**
 * The hash of the write's user, where the owner of the identity has not recorded it yet. Of a previous id it records the user
 * of the first alias, whether it counts or not.
 */
export function unknownClaimant(write: ProfileWrite, identity: Identity, owner: Profile): string | undefined {
  const user = write.identities.find(({ type }) => type === PERSON);
  if (user === undefined || user === identity) return undefined;
  const claimant = claimantOf(write, user.value);
  const isKnown =
    identity.type === PERSON
      ? withAlias(owner, identity, aliasOf(write, claimant)) === owner
      : claimantsOn(owner, identity).includes(claimant);
  return isKnown ? undefined : claimant;
}

/** The alias of a write, or of the claim of one. */
export function aliasOf(
  { ts = Number.MAX_SAFE_INTEGER, order = 0 }: Pick<ProfileWrite, 'ts' | 'order'>,
  claimant: string,
): FirstAlias {
  return [ts, order, claimant];
}

function withAlias(profile: Profile, previous: Identity, alias: FirstAlias): Profile {
  const identities = profile.identities.map((one) => {
    const first =
      one.type === previous.type && one.value === previous.value ? firstAlias(one.alias, alias) : undefined;
    return first === undefined || first === one.alias ? one : { ...one, alias: first };
  });
  return keptIfSame(profile.identities, identities) === profile.identities
    ? profile
    : { ...profile, identities };
}

/** The write that records a competing claim with the owner of the identity. */
export function competingClaimWrite(
  { org, region, limits, ts, order }: Pick<ProfileWrite, 'org' | 'region' | 'limits' | 'ts' | 'order'>,
  { identity, claimant }: CompetingClaim,
): ProfileWrite {
  return {
    org,
    region,
    identities: [identity],
    attributes: [],
    preferences: [],
    consents: [],
    linking: 'keep-people-apart',
    ...defined({ limits, ts, order }),
    claimedBy: claimant,
  };
}

/**
 * Records a user that came with the identity of the write; returns the profile itself where that is known, or the identity
 * is already set aside.
 */
export function withClaim(profile: Profile, write: ProfileWrite, claimant: string): Profile {
  const { limits } = write;
  const [identity] = write.identities;
  if (identity === undefined) return profile;
  if (identity.type === PERSON) return withAlias(profile, identity, aliasOf(write, claimant));
  if (claimantsIn(profile).includes(claimant) || isSetAside(profile, identity, limits)) return profile;
  const claimants = claimantsOn(profile, identity);
  if (claimants.includes(claimant)) return profile;
  const hash = identityHash(profile, identity);
  return { ...profile, shared: joinShared(profile.shared, [{ hash, claimants: [claimant] }]) };
}

/** Merges two lists; returns `left` itself when `right` adds nothing. */
export function joinShared(
  left: readonly SharedIdentity[] = [],
  right: readonly SharedIdentity[] = [],
): readonly SharedIdentity[] {
  const byHash = new Map(left.map(({ hash, claimants }) => [hash, claimants]));
  let isNew = false;
  for (const { hash, claimants } of right) {
    const known = byHash.get(hash) ?? [];
    if (claimants.every((claimant) => known.includes(claimant))) continue;
    byHash.set(hash, [...new Set([...known, ...claimants])].sort(compareText));
    isNew = true;
  }
  if (!isNew) return left;
  return Array.from(byHash, ([hash, claimants]) => ({ hash, claimants })).sort((a, b) =>
    compareText(a.hash, b.hash),
  );
}

/** Removes the records of identities that the profile lost. */
export function withoutShared(profile: Profile, lost: readonly Identity[]): Profile {
  if (profile.shared === undefined || lost.length === 0) return profile;
  const { shared, ...rest } = profile;
  const hashes = new Set(lost.map((identity) => identityHash(profile, identity)));
  const left = shared.filter(({ hash }) => !hashes.has(hash));
  if (left.length === shared.length) return profile;
  return left.length === 0 ? rest : { ...rest, shared: left };
}

/** The records of these identities, for the profile that gets them in a split. */
export function sharedOf(profile: Profile, identities: readonly Identity[]): Pick<Profile, 'shared'> {
  if (profile.shared === undefined) return {};
  const hashes = new Set(identities.map((identity) => identityHash(profile, identity)));
  const shared = profile.shared.filter(({ hash }) => hashes.has(hash));
  return shared.length === 0 ? {} : { shared };
}

/**
 * Identities by which an explicit write would merge too many users: those that are set aside and would bring others
 * to their profile; and, where all together are too many, those that led to users. Undefined where the write is
 * allowed.
 */
export function sharedByMerge(
  write: ProfileWrite,
  owners: readonly (Profile | undefined)[],
  named: Profile | undefined,
):
  | { readonly identities: readonly Identity[]; readonly competingClaims: readonly CompetingClaim[] }
  | undefined {
  const { limits = DEFAULT_LIMITS } = write;
  const setAside = write.identities.filter((identity, at) => {
    const owner = owners[at];
    if (owner === undefined || owner.ucid === named?.ucid || !isSetAside(owner, identity, limits))
      return false;
    return named !== undefined || write.identities.some((_, other) => owners[other]?.ucid !== owner.ucid);
  });
  if (setAside.length > 0) return { identities: setAside, competingClaims: [] };
  const profiles = new Map<string, Profile>();
  for (const profile of [named, ...owners]) if (profile !== undefined) profiles.set(profile.ucid, profile);
  const users = new Set(usersIn(write.identities));
  let most = 0;
  for (const { identities } of profiles.values()) {
    const own = usersIn(identities);
    most = Math.max(most, own.length);
    for (const value of own) users.add(value);
  }
  if (users.size <= limits.user_ids || users.size === most) return undefined;
  const identities: Identity[] = [];
  const competingClaims: CompetingClaim[] = [];
  for (const [at, identity] of write.identities.entries()) {
    const owner = owners[at];
    if (owner === undefined || identity.type === PERSON || usersIn(owner.identities).length === 0) continue;
    identities.push(identity);
    const claimant = unknownClaimant(write, identity, owner);
    if (claimant !== undefined) competingClaims.push({ identity, claimant });
  }
  if (identities.length > 0) return { identities, competingClaims };
  return { identities: write.identities.filter(({ type }) => type === PERSON), competingClaims };
}

function claimantsOn({ shared, ...scope }: Profile, identity: Identity): readonly string[] {
  if (shared === undefined) return [];
  const hash = identityHash(scope, identity);
  return shared.find((one) => one.hash === hash)?.claimants ?? [];
}

function claimantsIn(profile: Profile): readonly string[] {
  return usersIn(profile.identities).map((value) => claimantOf(profile, value));
}

function usersIn(identities: readonly Identity[]): readonly string[] {
  return identities.flatMap(({ type, value }) => (type === PERSON ? [value] : []));
}
