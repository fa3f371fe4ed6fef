import type { Json } from '../event/event.ts';

/** Profiles of one scope never meet those of another: neither identities nor ucids are shared. */
export interface ProfileScope {
  /** The integer `org_id` of the organization. */
  readonly org: number;
  readonly region: string;
}

/** One way to name a person, normalised: what two callers mean alike is written alike. */
export interface Identity {
  /** As its caller names it: a namespace (`email`) or a hashed variant of one (`email_sha256_lowercase`). */
  readonly type: string;
  readonly value: string;
}

/** Past it a profile takes no further identities but strong ones (`identity-limits.ts`). */
export const MAX_PROFILE_IDENTITIES = 500;
/** Of the JSON of a profile as it is stored, bytes. */
export const MAX_PROFILE_BYTES = 1024 * 1024;
/** Of the JSON of one register, at least: of `{"name":"","value":0,"ts":0}`. */
export const LEAST_REGISTER_BYTES = 28;

/**
 * A value that the newest writer wins: by `ts`, epoch ms, among equals by `order`, and then by the value, so that the
 * order of writes never matters.
 */
export interface Register {
  readonly value: Json;
  readonly ts: number;
  /**
   * The offset of the event that wrote it: what one request brings has one `ts`, and the last word counts. Of an explicit
   * write at the time of what it replaced one more than that had, else absent.
   */
  readonly order?: number;
  /**
   * The place was unset at `ts`: it has no value, and `value` is `null`. It competes as any other register does and is
   * kept, so that no older value comes back; records do not show it.
   */
  readonly unset?: true;
  /**
   * The ucid of the profile that it was written to, where that was before a merge. Absent in a profile that nothing was
   * merged into, and of what was written after the merge. The last thing by which two registers are compared.
   */
  readonly from?: string;
}

export interface HeldIdentity extends Identity {
  readonly ts: number;
  /** As of `Register`; an identity keeps it when it is written again, as it has one owner at a time. */
  readonly from?: string;
}

/** An identity that was taken away from a profile: no event brings it back there, an explicit write does. */
export interface UnlinkedIdentity {
  /** Its `identityHash`. */
  readonly hash: string;
  /** When it was taken away, epoch ms. */
  readonly ts: number;
}

/** An identity of a profile with which other people came as well. */
export interface SharedIdentity {
  /** Its `identityHash`. */
  readonly hash: string;
  /** Stand for `user_id`s that are none of the profile; sorted. */
  readonly claimants: readonly string[];
}

/** One attribute of `profile`: `["demographics", "gender"]`, or `["groups", "UA", "name"]` of an event's group. */
export interface ProfileAttribute extends Register {
  readonly path: readonly string[];
}

/** A marketing preference or a consent. */
export interface NamedRegister extends Register {
  readonly name: string;
}

/** A profile as stores keep it. Lists are sorted and hold each key once; maps by a person's own words pollute nothing. */
export interface Profile extends ProfileScope {
  /**
   * UUIDv7. The order of ucids is the order of creation: of several profiles that turn out to be one, the smallest is
   * the master.
   */
  readonly ucid: string;
  /** Epoch ms. */
  readonly created_ts: number;
  /** Epoch ms, grows with every write that changes something. */
  readonly updated_ts: number;
  /**
   * Grows by at least one with every write that changes something. After a merge it is higher than those of all profiles
   * that were merged, after a split both have a higher one than the merged profile had.
   */
  readonly version: number;
  readonly identities: readonly HeldIdentity[];
  /** Absent where there is none. No identity is in both lists. */
  readonly unlinked?: readonly UnlinkedIdentity[];
  /** Absent where there is none. Sorted by hash. */
  readonly shared?: readonly SharedIdentity[];
  readonly attributes: readonly ProfileAttribute[];
  readonly preferences: readonly NamedRegister[];
  readonly consents: readonly NamedRegister[];
  /** Ucids that were merged into this one: they resolve to it until they are split off again. */
  readonly linked: readonly string[];
}

/** What is to be written at `ts`; without one the store stamps it, later than everything that it replaces. */
export interface NewAttribute {
  readonly path: readonly string[];
  readonly value: Json;
  readonly ts?: number;
  /** See `Register`. */
  readonly order?: number;
  /** Takes the value away, also all that is within it; `value` is `null`. */
  readonly unset?: true;
}

export interface NewNamed {
  readonly name: string;
  readonly value: Json;
  readonly ts?: number;
  /** As of `NewAttribute`. */
  readonly unset?: true;
}
