import type { CanonicalEvent, Json, JsonObject } from '../event/event.ts';
import { attributeOf, type NullMeaning } from './attributes.ts';
import type { IsBlocked } from './blocked-identities.ts';
import { formerSpellings, type IdentityFault, type IdentityReading, normaliseIdentity } from './identity.ts';
import type { Identity, NewAttribute, ProfileScope } from './profile.ts';
import type { FormerIdentity, ProfileWrite, SpelledBefore } from './profile-store.ts';

const USER = 'user_id';
const DEVICE = 'anonymous_id';

/** Categories of a profile that events write to. */
const TRAITS = 'traits';
const GROUPS = 'groups';

/** What an event says of somebody. */
export interface EventWrite {
  /** Absent when the event names nobody who could have a profile. */
  readonly write?: ProfileWrite;
  /** Identities of the event that are none, by what is wrong with them: placeholders above all. */
  readonly skipped: readonly (IdentityFault | 'blocked')[];
}

/**
 * An identify or group event as a write of the profile of whom it is about. What an identify event says of somebody
 * goes to the category `traits`; what a group event says of a group to `groups`, below the group's id, and a group about
 * which nothing is said is there, empty. A trait of `null` takes the attribute away, as producers of Segment's and
 * RudderStack's libraries mean it, unless `nulls` keeps it.
 *
 * Everything has the time at which the event happened and its place among the accepted ones, so that a late event
 * replaces nothing newer, a replay writes the same, and of what happened at one time the last word counts. E-mail address and
 * telephone number identify where they are a person's: the traits of a group are the group's.
 */
export function eventWrite(
  event: CanonicalEvent,
  scope: ProfileScope,
  offset: number,
  nulls: NullMeaning = 'unset',
  reading: IdentityReading = {},
  isBlocked: IsBlocked = () => false,
): EventWrite {
  const identities: Identity[] = [];
  const spelledBefore: SpelledBefore[] = [];
  const skipped: (IdentityFault | 'blocked')[] = [];
  for (const [type, value] of namesIn(event)) {
    if (value === undefined || value === null) continue;
    const normalised = normaliseIdentity(type, value, reading);
    if (normalised.kind === 'fault') {
      skipped.push(normalised.fault);
      continue;
    }
    const { identity: of } = normalised;
    if (isBlocked(of)) {
      skipped.push('blocked');
      continue;
    }
    identities.push(of);
    for (const identity of formerSpellings(of, String(value), 'usual', reading))
      spelledBefore.push({ of, identity });
  }
  if (identities.length === 0) return { skipped };
  const receivedAt = Date.parse(event.received_at);
  const happenedAt = happenedAtOf(event, receivedAt);
  const former = formerIdentityIn(event, identities);
  const formerly = former && (isBlocked(former.asUser) || isBlocked(former.asDevice)) ? undefined : former;
  const write: ProfileWrite = {
    org: scope.org,
    region: scope.region,
    identities,
    attributes: attributesIn(event, nulls).map((attribute) => ({ ...attribute, order: offset })),
    preferences: [],
    consents: [],
    ts: happenedAt,
    linking: 'keep-people-apart',
    receivedAt,
    happenedAt,
    ...(formerly === undefined ? {} : { formerly }),
    ...(spelledBefore.length === 0 ? {} : { spelledBefore }),
  };
  return { write, skipped };
}

/** By the producer's word, but not in the future, which would silence what comes; a clock before 1970 is none. */
function happenedAtOf({ timestamp }: CanonicalEvent, receivedAt: number): number {
  const said = Date.parse(timestamp);
  return said >= 0 ? Math.min(said, receivedAt) : receivedAt;
}

/**
 * An identify event whose `context.alias.previous_id` is a text is an alias: its user was known by that id. None where
 * the event has no user to be somebody else, where that is the same, or the event's own device.
 */
function formerIdentityIn(
  { type, context }: CanonicalEvent,
  identities: readonly Identity[],
): FormerIdentity | undefined {
  const user = identities.find((identity) => identity.type === USER);
  if (type !== 'identify' || user === undefined) return undefined;
  const alias = context?.alias;
  const previous = isObject(alias) ? alias.previous_id : undefined;
  const asUser = normaliseIdentity(USER, previous);
  const asDevice = normaliseIdentity(DEVICE, previous);
  if (asUser.kind !== 'identity' || asDevice.kind !== 'identity') return undefined;
  const { value } = asUser.identity;
  const isNothingNew =
    value === user.value || identities.some((known) => known.type === DEVICE && known.value === value);
  return isNothingNew ? undefined : { asUser: asUser.identity, asDevice: asDevice.identity };
}

function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** By what the event may be known to be about somebody, most telling first. */
function namesIn({
  type,
  user_id,
  anonymous_id,
  traits,
}: CanonicalEvent): readonly (readonly [string, unknown])[] {
  const own = [[USER, user_id] as const, [DEVICE, anonymous_id] as const];
  if (type !== 'identify') return own;
  return [...own, ['email', traits?.email], ['cellphone', traits?.phone]];
}

function attributesIn(
  { type, group_id, traits = {} }: CanonicalEvent,
  nulls: NullMeaning,
): readonly NewAttribute[] {
  if (type === 'identify') return attributesBelow([TRAITS], traits, nulls);
  if (typeof group_id !== 'string' || group_id === '') return [];
  const group = [GROUPS, attributeName(group_id)];
  const ofGroup = attributesBelow(group, traits, nulls);
  return ofGroup.length > 0 ? ofGroup : [{ path: group, value: {} }];
}

/** A record shows the time of a category under the first name. */
function attributeName(name: string): string {
  return name === '_ts' ? '_ts_' : name;
}

function attributesBelow(
  path: readonly string[],
  values: JsonObject,
  nulls: NullMeaning,
): readonly NewAttribute[] {
  return Object.entries(values).map(([name, value]) =>
    attributeOf([...path, attributeName(name)], value, nulls),
  );
}
