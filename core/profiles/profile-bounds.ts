import type { Json } from '../event/event.ts';
import { MAX_PROFILE_BYTES, type Profile } from './profile.ts';
import type { ProfileWrite } from './profile-store.ts';
import { withoutOrigins } from './registers.ts';

/*
 * A write rewrites its profile as a whole, publishes it as a whole, and every search reads it as a whole. So what one
 * profile costs the tenants beside it follows from its size, and the size is bounded.
 */

/** Bounds on one profile: attributes, preferences and consents, unset ones too, and its stored JSON without origins. */
export interface ProfileBounds {
  readonly values: number;
  readonly bytes: number;
}

export const DEFAULT_PROFILE_BOUNDS: ProfileBounds = { values: 2_000, bytes: 256 * 1024 };
/** Bounds that an operator may set at most. */
export const MAX_PROFILE_BOUNDS: ProfileBounds = { values: 20_000, bytes: MAX_PROFILE_BYTES };
/** Characters of JSON that a call may read and rewrite free of charge: several times those of a usual profile. */
const UNCHARGED_CHARACTERS = 32 * 1024;

/**
 * The cost of a call beyond an ordinary one: characters of JSON of the profiles that it has read or rewritten. Absent: none.
 * Organizations are limited by it, so that many small writes to a large profile cost what they take.
 */
export interface Charged {
  readonly charge?: number;
}

export function chargeOf(read: number, written = 0): Charged {
  const charge = Math.max(read, written) - UNCHARGED_CHARACTERS;
  return charge > 0 ? { charge } : {};
}

/** The part of the bytes of a profile that the JSON of one value may have. By default the largest value of an event fits. */
const VALUE_PART = 1 / 4;

/** The bound that a profile would exceed. */
export interface ProfileExcess {
  readonly of: 'values' | 'bytes' | 'value_bytes';
  readonly size: number;
  readonly limit: number;
  /** The profile that stays as it is; absent where the write would have created one. */
  readonly ucid?: string;
}

/**
 * The bound that the write exceeds; undefined where it is within all of them. A profile that is larger already, from an
 * earlier release or before the bounds were lowered, may be written as long as it does not grow.
 *
 * - `text`: the JSON of `after`.
 * - `before`: the profiles that the write merges.
 */
export function excessOf(
  after: Profile,
  text: () => string,
  before: readonly Profile[],
  bounds: ProfileBounds,
): ProfileExcess | undefined {
  const [survivor] = before;
  const ucid = survivor === undefined || survivor.version === 0 ? {} : { ucid: survivor.ucid };
  const values = valuesOf(after);
  if (values > bounds.values && values > Math.max(...before.map(valuesOf)))
    return { of: 'values', size: values, limit: bounds.values, ...ucid };
  const limit = bounds.bytes * VALUE_PART;
  if (exceedsBytes(text(), limit)) {
    const largest = (profile: Profile) => largestValueOf(profile, limit);
    const size = largest(after);
    if (size > limit && size > Math.max(...before.map(largest)))
      return { of: 'value_bytes', size, limit, ...ucid };
  }
  if (!exceedsBytes(text(), bounds.bytes)) return undefined;
  const bytes = bareBytes(after, text());
  if (bytes <= bounds.bytes || contentBytes(after) <= Math.max(...before.map(contentBytes))) return undefined;
  return { of: 'bytes', size: bytes, limit: bounds.bytes, ...ucid };
}

/** Whether profiles that are merged are within the bounds; `merged`: their merge, made only where their sum is not. */
export function fitsMerged(
  profiles: readonly Profile[],
  merged: () => Profile,
  { values, bytes }: ProfileBounds,
): boolean {
  const sum = profiles.reduce((all, profile) => all + valuesOf(profile), 0);
  const texts = profiles.map((profile) => JSON.stringify(profile));
  const characters = texts.reduce((all, text) => all + text.length, 0);
  // A UTF-16 unit has at most three bytes; a merge adds origins, which do not count.
  if (sum <= values && characters * 3 <= bytes) return true;
  const all = merged();
  return valuesOf(all) <= values && bareBytes(all) <= bytes;
}

/** Bytes of the JSON of the largest value; 0 where all are surely within the bound. */
function largestValueOf({ attributes, preferences, consents }: Profile, bound: number): number {
  let largest = 0;
  for (const registers of [attributes, preferences, consents])
    for (const { value } of registers)
      if (!isSurelySmall(value, bound)) largest = Math.max(largest, Buffer.byteLength(JSON.stringify(value)));
  return largest;
}

/** A UTF-16 unit has at most six bytes of JSON. */
function isSurelySmall(value: Json, bound: number): boolean {
  if (typeof value === 'string') return value.length * 6 <= bound;
  return typeof value !== 'object' || value === null;
}

/** The bounds for records that keep people apart (claims, unlinks), so that a full profile still takes them. */
export function withRoom({ values, bytes }: ProfileBounds): ProfileBounds {
  return { values, bytes: Math.min(MAX_PROFILE_BYTES, bytes + bytes / 4) };
}

/** Counts bytes only where the length allows an excess: a UTF-16 unit has at most three bytes. */
export function exceedsBytes(text: string, bytes: number): boolean {
  return text.length * 3 > bytes && Buffer.byteLength(text) > bytes;
}

export function valuesOf({
  attributes,
  preferences,
  consents,
}: Pick<Profile | ProfileWrite, 'attributes' | 'preferences' | 'consents'>): number {
  return attributes.length + preferences.length + consents.length;
}

/** Bytes of the JSON without origins: they are kept for a split and dropped where there is no room for them. */
function bareBytes(profile: Profile, text?: string): number {
  const bare = withoutOrigins(profile);
  return Buffer.byteLength(text !== undefined && bare === profile ? text : JSON.stringify(bare));
}

/** Bytes of the names and values alone: times, orders and the version grow with writes that change nothing else. */
function contentBytes(profile: Profile): number {
  const { identities, attributes, preferences, consents, unlinked, shared, linked } = profile;
  const content = [
    identities.map(({ type, value }) => [type, value]),
    attributes.map(({ path, value }) => [path, value]),
    [...preferences, ...consents].map(({ name, value }) => [name, value]),
    unlinked?.map(({ hash }) => hash),
    shared,
    linked,
  ];
  return Buffer.byteLength(JSON.stringify(content));
}
