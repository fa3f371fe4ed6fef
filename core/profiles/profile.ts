import type { Json } from '../event/event.ts';

/** Profiles of different scopes share neither identities nor ucids. */
export interface ProfileScope {
  /** The integer `org_id` of the organization. */
  readonly org: number;
  readonly region: string;
}

export function isInScope({ org, region }: ProfileScope, scope: ProfileScope): boolean {
  return org === scope.org && region === scope.region;
}

/** One normalised identifier of a person: equal identifiers are equal texts. */
export interface Identity {
  /** A namespace (`email`) or a hashed variant of one (`email_sha256_lowercase`). */
  readonly type: string;
  readonly value: string;
}

/** Bound on identities; strong ones may exceed it (`identity/identity-limits.ts`). */
export const MAX_PROFILE_IDENTITIES = 500;
/** Bound on the stored JSON of a profile, bytes. */
export const MAX_PROFILE_BYTES = 1024 * 1024;
/** The least bytes of JSON of one register: `{"name":"","value":0,"ts":0}`. */
export const LEAST_REGISTER_BYTES = 28;

/**
 * A last-writer-wins register: the greatest `ts` (epoch ms) wins, then `order`, then the value, so that the order of
 * writes does not matter.
 */
export interface Register {
  readonly value: Json;
  readonly ts: number;
  /**
   * The offset of the event that wrote it, because the events of one request share a `ts`. An explicit write with the
   * same `ts` as the value it replaces has one more than that value's order; otherwise absent.
   */
  readonly order?: number;
  /**
   * The value was unset at `ts`; `value` is `null`. It competes like any register and is kept, so that no older value
   * comes back; records do not show it.
   */
  readonly unset?: true;
  /**
   * The part of the profile that it belongs to: the `refOf` of the identity that events were about, or the ucid of the profile
   * before a merge. Absent in a profile of one part, for what its pinned identities say, and on values that were written after
   * a merge by a call that names no part. The last criterion when two registers are compared.
   */
  readonly from?: string;
}

/**
 * When an identity was named, by the `refOf` of the principals of these events (`links.ts`); its own, where it was the
 * principal itself.
 */
export type Mentions = Readonly<Record<string, Mention>>;

/** The first and the last time, epoch ms, and the offset of the first event, which orders events of the same time. */
export type Mention = readonly [first: number, last: number, order: number];

export interface HeldIdentity extends Identity {
  /** When it was named last. */
  readonly ts: number;
  /** The ucid of the profile before a merge. An identity keeps it when it is written again, as it has one owner at a time. */
  readonly from?: string;
  /** By which principals of the profile it was named. Absent: it is pinned, no event takes it away. */
  readonly by?: Mentions;
  /**
   * Of a user: the time and the offset of the first event about it. Absent with `by`: no event is about it, an alias names it;
   * absent without: it was known before all events.
   */
  readonly since?: readonly [ts: number, order: number];
  /** Of a user: the first alias that named it as a previous id. */
  readonly alias?: FirstAlias;
}

/** The time, epoch ms, and the offset of an alias, and the `refOf` of its user, whose profile may be another one. */
export type FirstAlias = readonly [ts: number, order: number, by: string];

/** An identity of another profile that principals of this one named. */
export interface NamedElsewhere {
  /** Its `refOf`. */
  readonly ref: string;
  readonly by: Mentions;
}

/**
 * Values of parts of a profile that newer values of other parts hide: a part that is taken out has them again. Present in a
 * profile of several parts.
 */
export interface HiddenValues {
  readonly attributes: readonly ProfileAttribute[];
  readonly preferences: readonly NamedRegister[];
  readonly consents: readonly NamedRegister[];
  /** Some were lost: by a merge in 0.2.0, or because there were too many. */
  readonly partial?: true;
}

/** An identity that was unlinked from a profile: no event links it again, an explicit write does. */
export interface UnlinkedIdentity {
  /** Its `identityHash`. */
  readonly hash: string;
  /** When it was unlinked, epoch ms. */
  readonly ts: number;
}

/** An identity of the profile that came with users of other profiles too. */
export interface SharedIdentity {
  /** Its `identityHash`. */
  readonly hash: string;
  /** Hashes of `user_id`s that are not of this profile; sorted. */
  readonly claimants: readonly string[];
}

/** One attribute, by path: `["demographics", "gender"]`, or `["groups", "UA", "name"]` from a group event. */
export interface ProfileAttribute extends Register {
  readonly path: readonly string[];
}

/** A marketing preference or a consent. */
export interface NamedRegister extends Register {
  readonly name: string;
}

/** A profile as stores keep it. Lists are sorted and hold each key once. */
export interface Profile extends ProfileScope {
  /** UUIDv7, so ucids sort by creation time: of several profiles that are merged, the smallest ucid survives. */
  readonly ucid: string;
  /** Epoch ms. */
  readonly created_ts: number;
  /** Epoch ms; grows with every effective write. */
  readonly updated_ts: number;
  /**
   * Grows with every effective write. After a merge it is higher than the versions of all merged profiles; after a
   * split both profiles have a higher one than the merged profile had.
   */
  readonly version: number;
  readonly identities: readonly HeldIdentity[];
  /** Absent when empty. No identity is in both lists. */
  readonly unlinked?: readonly UnlinkedIdentity[];
  /** Absent when empty. Sorted by hash. */
  readonly shared?: readonly SharedIdentity[];
  readonly attributes: readonly ProfileAttribute[];
  readonly preferences: readonly NamedRegister[];
  readonly consents: readonly NamedRegister[];
  /** Absent when empty. Sorted by `ref`. */
  readonly elsewhere?: readonly NamedElsewhere[];
  readonly hidden?: HiddenValues;
  /** Ucids that were merged into this one: they lead to it until they are split off. */
  readonly linked: readonly string[];
}

/** A value to write at `ts`. Without `ts` the store sets one later than those of all values that it replaces. */
export interface NewAttribute {
  readonly path: readonly string[];
  readonly value: Json;
  readonly ts?: number;
  /** See `Register.order`. */
  readonly order?: number;
  /** Removes the value and everything below its path; `value` is `null`. */
  readonly unset?: true;
}

export interface NewNamed {
  readonly name: string;
  readonly value: Json;
  readonly ts?: number;
  /** See `NewAttribute.unset`. */
  readonly unset?: true;
}
