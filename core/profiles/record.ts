import { isObject, type Json, type JsonObject } from '../event/event.ts';
import { BytesTally, organizationScope, recordBytes } from '../funnel/bytes.ts';
import { countWritten } from '../funnel/counts.ts';
import type { StorageVerdict } from '../limits/storage-budget.ts';
import { type EventLog, MAX_VALUE_BYTES, type NewEntry } from '../log/event-log.ts';
import type { CountsForm } from '../log/stage.ts';
import { TOPIC } from '../log/topics.ts';
import { namespaceOf } from './identity/identity.ts';
import { DEVICE, PERSON } from './identity/identity-limits.ts';
import { sameIdentity } from './links.ts';
import { withoutOlderSpellings } from './merge.ts';
import type { HeldIdentity, Identity, NamedRegister, Profile, ProfileAttribute } from './profile.ts';
import type { ProfileChange, ProfileSearch, ProfileWrite, PublishProfileChanges } from './profile-store.ts';
import {
  attributeTree,
  isTimedValue,
  joinAttributes,
  joinNamed,
  stampAttributes,
  stampNamed,
  visibleAttributes,
} from './registers.ts';

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
  const tree = attributeTree(
    attributes.some(({ value }) => isTimedValue(value)) ? attributes.map(asShown) : attributes,
  );
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

function identityMapOf(profile: Profile): JsonObject {
  const { identities, linked } = profile;
  const byNamespace = new Map<string, Json[]>();
  for (const { type, value, ts } of withoutOlderSpellings(identities.filter(isShown(profile)))) {
    const namespace = namespaceOf(type);
    const items = byNamespace.get(namespace) ?? [];
    // Reserved words are no valid types, so a type may be a property name.
    items.push({ [type]: value, _ts: String(ts) });
    byNamespace.set(namespace, items);
  }
  if (linked.length > 0) byNamespace.set('linkedUcid', [...linked]);
  return Object.fromEntries(byNamespace);
}

/**
 * The previous id of an alias is a `user_id` and an `anonymous_id`, as no alias says which. It is shown as the user's once an
 * event or a call is about that user, else as that of a device.
 */
function isShown(profile: Profile): (identity: Identity) => boolean {
  const users = profile.identities.filter(({ type }) => type === PERSON);
  if (users.length < 2) return () => true;
  const said = new Set(users.filter((one) => !isPreviousId(one)).map(({ value }) => value));
  return ({ type, value }) => (type === PERSON ? said.has(value) : type !== DEVICE || !said.has(value));
}

/** A user that only aliases named. */
function isPreviousId({ type, by, since }: HeldIdentity): boolean {
  return type === PERSON && since === undefined && by !== undefined && Object.keys(by).length > 0;
}

/** Whether a search by these finds the profile: not by a previous id that no event or call was about as a user. */
export function isFoundBy(
  profile: Profile,
  { identities, ucids }: Pick<ProfileSearch, 'identities' | 'ucids'>,
): boolean {
  if (!profile.identities.some(isPreviousId)) return true;
  if (ucids.some((ucid) => ucid === profile.ucid || profile.linked.includes(ucid))) return true;
  const shown = profile.identities.filter((one) => !isPreviousId(one));
  return identities.some((sought) => shown.some(sameIdentity(sought)));
}

/** A value that would be read as one with a time is shown with its time, so that it can be written back. */
function asShown(attribute: ProfileAttribute): ProfileAttribute {
  const { value, ts } = attribute;
  return isTimedValue(value) ? { ...attribute, value: { value, _ts: String(ts) } } : attribute;
}

/** Without those of the name `_ts`, as which 0.2.0 stored the time of a map. */
function presentOf(registers: readonly NamedRegister[]): readonly NamedRegister[] {
  return registers.filter(({ name, unset }) => unset !== true && name !== '_ts');
}

/** The register's value holds the other fields. */
function preferenceOf({ value, ts }: NamedRegister): Json {
  return isObject(value) ? { ...value, _ts: String(ts) } : value;
}

/** The value of a record on `profiles.changes`: a change, and the profile after it as in the profile API. */
export interface ProfileChangeValue {
  readonly kind: ProfileChange['kind'];
  readonly ucid: string;
  readonly orgId: number;
  readonly region: string;
  /** Grows with every change of this ucid. */
  readonly version: number;
  /** Epoch ms. */
  readonly at: number;
  /** Ucids that now lead to this one; of a deletion, those that lead nowhere any more. */
  readonly linked: readonly string[];
  /**
   * Absent after a deletion, when too large for one entry of the log, and while the organization is over a budget of bytes: a
   * small event may change a large profile, so its changes could fill the disk although its events are refused.
   */
  readonly record?: ProfileRecord;
  readonly too_large?: true;
}

/**
 * Appends changes to `profiles.changes`, in order, with the profile's ucid as key, then counts their bytes, by
 * organization. `verdictOf` tells by `org` whether an organization is over a budget of bytes.
 */
export function publishProfileChanges(
  log: Pick<EventLog, 'append'>,
  form?: () => CountsForm,
  verdictOf: (org: number) => StorageVerdict = () => undefined,
): PublishProfileChanges {
  const count = countWritten(log, form);
  return async (changes) => {
    const entries = changes.map((change) => entryOf(change, verdictOf(change.org) === undefined));
    await log.append(TOPIC.profileChanges, entries);
    const bytes = new BytesTally();
    for (const [at, { org }] of changes.entries()) {
      const entry = entries[at];
      if (entry !== undefined) bytes.written(organizationScope(org), recordBytes(entry));
    }
    await count(bytes);
  };
}

function entryOf(change: ProfileChange, hasRoom: boolean): NewEntry {
  const { kind, ucid, org, region, version, at, linked, profile } = change;
  const published: ProfileChangeValue = { kind, ucid, orgId: org, region, version, at, linked };
  const value = JSON.stringify(
    profile === undefined ? published : { ...published, record: recordOf(profile) },
  );
  const fits = Buffer.byteLength(value) <= MAX_VALUE_BYTES && (hasRoom || profile === undefined);
  return { key: ucid, value: fits ? value : JSON.stringify({ ...published, too_large: true }), headers: {} };
}
