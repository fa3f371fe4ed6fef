import type { Json, JsonObject } from '../event/event.ts';
import { attributeTree, joinAttributes, stampAttributes, visibleAttributes } from './attributes.ts';
import { namespaceOf } from './identity/identity.ts';
import { withoutOlderSpellings } from './merge.ts';
import type { NamedRegister, Profile, ProfileAttribute } from './profile.ts';
import type { ProfileWrite } from './profile-store.ts';
import { joinNamed, stampNamed } from './registers.ts';

/** A profile as the profile API shows it. Times inside of it are texts of epoch ms. */
export interface ProfileRecord {
  /** Epoch ms, as is `created_ts`. */
  readonly updated_ts: number;
  readonly created_ts: number;
  /** Attributes by category; a category that is an object has in `_ts` the time of its last write. */
  readonly profile: JsonObject;
  /** By namespace, a list of objects with `_ts` and a property named after the identity's type. */
  readonly ids: JsonObject;
  readonly mkt_preferences: JsonObject;
  readonly consent: JsonObject;
  readonly region: string;
  readonly ucid: string;
}

/** The record of a profile. Names such as `__proto__` are plain keys. */
export function recordOf(profile: Profile): ProfileRecord {
  return {
    updated_ts: profile.updated_ts,
    created_ts: profile.created_ts,
    profile: categoriesOf(profile.attributes),
    ids: identityMapOf(profile),
    mkt_preferences: Object.fromEntries(
      presentOf(profile.preferences).map((preference) => [preference.name, preferenceOf(preference)]),
    ),
    consent: Object.fromEntries(
      presentOf(profile.consents).map(({ name, value, ts }) => [name, { value, _ts: String(ts) }]),
    ),
    region: profile.region,
    ucid: profile.ucid,
  };
}

/**
 * The record of a profile for a caller without read permission: identities and times of the profile, and otherwise
 * exactly what the call wrote.
 *
 * Stored values are not read, not even those of the written attributes: a write with an old `_ts` loses, and the
 * winner would disclose the stored value or confirm a guess. Values without a time of their own get `updated_ts`.
 */
export function recordOfWrite(
  profile: Profile,
  {
    attributes,
    preferences,
    consents,
    ts,
  }: Pick<ProfileWrite, 'attributes' | 'preferences' | 'consents' | 'ts'>,
): ProfileRecord {
  const now = profile.updated_ts;
  return recordOf({
    ...profile,
    attributes: joinAttributes([], stampAttributes([], attributes, ts, now)),
    preferences: joinNamed([], stampNamed([], preferences, ts, now)),
    consents: joinNamed([], stampNamed([], consents, ts, now)),
  });
}

function categoriesOf(attributes: readonly ProfileAttribute[]): JsonObject {
  const tree = attributeTree(attributes);
  const times = new Map<string, number>();
  // Includes the times of unsets, so that a record that is changed and written back with the shown time wins.
  const unsets = attributes.filter(({ unset }) => unset === true);
  for (const { path, ts } of [...visibleAttributes(attributes), ...unsets]) {
    const category = path[0] ?? '';
    times.set(category, Math.max(ts, times.get(category) ?? 0));
  }
  return Object.fromEntries(
    Object.entries(tree).map(([category, value]) => [
      category,
      isObject(value) ? { ...value, _ts: String(times.get(category) ?? 0) } : value,
    ]),
  );
}

function identityMapOf({ identities, linked }: Profile): JsonObject {
  const byNamespace = new Map<string, Json[]>();
  for (const { type, value, ts } of withoutOlderSpellings(identities)) {
    const namespace = namespaceOf(type);
    const items = byNamespace.get(namespace) ?? [];
    // Reserved words are no valid types, so a type may be a property name.
    items.push({ [type]: value, _ts: String(ts) });
    byNamespace.set(namespace, items);
  }
  if (linked.length > 0) byNamespace.set('linkedUcid', [...linked]);
  return Object.fromEntries(byNamespace);
}

function presentOf(registers: readonly NamedRegister[]): readonly NamedRegister[] {
  return registers.filter(({ unset }) => unset !== true);
}

/** The register's value holds the other fields. */
function preferenceOf({ value, ts }: NamedRegister): Json {
  return isObject(value) ? { ...value, _ts: String(ts) } : value;
}

function isObject(value: Json): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !JSON.isRawJSON(value);
}
