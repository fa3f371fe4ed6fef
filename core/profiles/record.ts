import type { Json, JsonObject } from '../event/event.ts';
import { attributeTree, joinAttributes, stampAttributes, visibleAttributes } from './attributes.ts';
import { withoutOlderSpellings } from './fold.ts';
import { namespaceOf } from './identity/identity.ts';
import type { NamedRegister, Profile, ProfileAttribute } from './profile.ts';
import type { ProfileWrite } from './profile-store.ts';
import { joinNamed, stampNamed } from './registers.ts';

/** A profile as the profile API shows it, in its own words. Times inside of it are texts, epoch ms. */
export interface ProfileRecord {
  /** Epoch ms, as is `created_ts`. */
  readonly updated_ts: number;
  readonly created_ts: number;
  /** Attributes by category; a category that is an object says in `_ts` when it was written last. */
  readonly profile: JsonObject;
  /** Of each namespace a list of objects, with `_ts` and a property of the identity's own type. */
  readonly ids: JsonObject;
  readonly mkt_preferences: JsonObject;
  readonly consent: JsonObject;
  readonly region: string;
  readonly ucid: string;
}

/** The record of a profile. Whatever people call their attributes and identities, it pollutes nothing. */
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
 * The record of a profile for a caller that may write and not read: the identities and times of the profile, and of
 * everything else exactly what the call wrote, as it wrote it.
 *
 * The stored values are not looked at, not even those at the places of the write: a write with an old `_ts` loses, and
 * what won would tell the stored value, or that it equals a guess. What has no time of its own gets `updated_ts`.
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
  // Also those of unsets: a record that is changed and written back at the time it shows is to count.
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
    // Types that are words of the language are none, so a type may be a property's name.
    items.push({ [type]: value, _ts: String(ts) });
    byNamespace.set(namespace, items);
  }
  if (linked.length > 0) byNamespace.set('linkedUcid', [...linked]);
  return Object.fromEntries(byNamespace);
}

function presentOf(registers: readonly NamedRegister[]): readonly NamedRegister[] {
  return registers.filter(({ unset }) => unset !== true);
}

/** The register holds the other four fields. */
function preferenceOf({ value, ts }: NamedRegister): Json {
  return isObject(value) ? { ...value, _ts: String(ts) } : value;
}

function isObject(value: Json): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !JSON.isRawJSON(value);
}
