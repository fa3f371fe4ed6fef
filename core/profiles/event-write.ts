import { type CanonicalEvent, isObject, type JsonObject } from '../event/event.ts';
import {
  formerSpellings,
  type IdentityFault,
  type IdentityReading,
  normaliseIdentity,
} from './identity/identity.ts';
import type { IsBlocked } from './identity/profile-settings.ts';
import type { Identity, NewAttribute, ProfileScope } from './profile.ts';
import type { OlderSpelling, PreviousIdentity, ProfileWrite } from './profile-store.ts';
import { attributeOf, type NullHandling } from './registers.ts';

const USER = 'user_id';
const DEVICE = 'anonymous_id';

/** Profile categories that events write to. */
const TRAITS = 'traits';
const GROUPS = 'groups';

interface EventWrite {
  /** Absent when the event has no valid identity. */
  readonly write?: ProfileWrite;
  /** Faults of the event's invalid identities, mostly placeholders. */
  readonly skipped: readonly (IdentityFault | 'blocked')[];
}

interface EventWriteOptions {
  readonly scope: ProfileScope;
  /** Offset on `events.accepted`; it orders values of the same time. */
  readonly offset: number;
  /** Whether a trait of `null` removes the attribute. Default `unset`. */
  readonly nulls?: NullHandling | undefined;
  /** The organization's settings for reading identities. */
  readonly reading?: IdentityReading;
  /** Matches identities that the organization blocks. Default: none. */
  readonly isBlocked?: IsBlocked | undefined;
}

/**
 * Builds the profile write of an identify, alias or group event. Traits of a person go to the category `traits`,
 * those of a group event to `groups` below the group's id; a group without traits is written as an empty object. A
 * trait of `null` removes the attribute, as in Segment's and RudderStack's libraries, unless `nulls` keeps it.
 *
 * Each value has the time of the event and its offset among the accepted events. So a late event replaces nothing
 * newer, a replay writes the same, and of two events of the same time the later one in the log wins. E-mail addresses
 * and telephone numbers identify only in the traits of a person, not of a group.
 */
export function eventWrite(
  event: CanonicalEvent,
  { scope, offset, nulls = 'unset', reading = {}, isBlocked = () => false }: EventWriteOptions,
): EventWrite {
  const identities: Identity[] = [];
  const olderSpellings: OlderSpelling[] = [];
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
      olderSpellings.push({ of, identity });
  }
  if (identities.length === 0) return { skipped };
  const receivedAt = Date.parse(event.received_at);
  const happenedAt = happenedAtOf(event, receivedAt);
  const former = formerIdentityIn(event, identities);
  const previousIdentity =
    former && (isBlocked(former.asUser) || isBlocked(former.asDevice)) ? undefined : former;
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
    order: offset,
    ...(previousIdentity === undefined ? {} : { previousIdentity }),
    ...(olderSpellings.length === 0 ? {} : { olderSpellings }),
  };
  return { write, skipped };
}

/**
 * The producer's timestamp, but not in the future, where it would outrank later values; times before 1970 are ignored
 * as wrong clocks.
 */
function happenedAtOf({ timestamp }: CanonicalEvent, receivedAt: number): number {
  const written = Date.parse(timestamp);
  return written >= 0 ? Math.min(written, receivedAt) : receivedAt;
}

/** An alias may have traits of its user, as some libraries send them. */
function isOfPerson({ type }: CanonicalEvent): boolean {
  return type === 'identify' || type === 'alias';
}

/**
 * The previous id of an alias. An identify event with a text in `context.alias.previous_id` counts as one: release 0.2.0
 * made it of an alias. Undefined where the event has no user, or the id is the user's own or that of the event's device.
 */
function formerIdentityIn(
  event: CanonicalEvent,
  identities: readonly Identity[],
): PreviousIdentity | undefined {
  const user = identities.find((identity) => identity.type === USER);
  if (!isOfPerson(event) || user === undefined) return undefined;
  const alias = event.context?.alias;
  const converted = isObject(alias) ? alias.previous_id : undefined;
  const previous = event.type === 'alias' ? event.previous_id : converted;
  const asUser = normaliseIdentity(USER, previous);
  const asDevice = normaliseIdentity(DEVICE, previous);
  if (asUser.kind !== 'identity' || asDevice.kind !== 'identity') return undefined;
  const { value } = asUser.identity;
  const isNothingNew =
    value === user.value || identities.some((known) => known.type === DEVICE && known.value === value);
  return isNothingNew ? undefined : { asUser: asUser.identity, asDevice: asDevice.identity };
}

/** The identifiers of the event, the most specific first. */
function namesIn(event: CanonicalEvent): readonly (readonly [string, unknown])[] {
  const { user_id, anonymous_id, traits } = event;
  const own = [[USER, user_id] as const, [DEVICE, anonymous_id] as const];
  if (!isOfPerson(event)) return own;
  return [...own, ['email', traits?.email], ['cellphone', traits?.phone]];
}

function attributesIn(event: CanonicalEvent, nulls: NullHandling): readonly NewAttribute[] {
  const { group_id, traits = {} } = event;
  if (isOfPerson(event)) return attributesBelow([TRAITS], traits, nulls);
  if (typeof group_id !== 'string' || group_id === '') return [];
  const group = [GROUPS, attributeName(group_id)];
  const ofGroup = attributesBelow(group, traits, nulls);
  return ofGroup.length > 0 ? ofGroup : [{ path: group, value: {} }];
}

/** Escapes `_ts`, under which records show the time of a category. */
function attributeName(name: string): string {
  return name === '_ts' ? '_ts_' : name;
}

function attributesBelow(
  path: readonly string[],
  values: JsonObject,
  nulls: NullHandling,
): readonly NewAttribute[] {
  return Object.entries(values).map(([name, value]) =>
    attributeOf([...path, attributeName(name)], value, nulls),
  );
}

/** Attributes of one combined write. Larger writes gain nothing. */
const MAX_ATTRIBUTES = 1_000;

export interface WriteOfEvent {
  readonly messageId: string;
  readonly write: ProfileWrite;
}

/**
 * Groups consecutive events of one subject that a single write can replace: those with the same identities that
 * happened and were received at the same moment, as the events of one request often are. All of them meet the same
 * owners, and every deletion is before all of them or after all.
 */
export function combinable(events: readonly WriteOfEvent[]): readonly (readonly WriteOfEvent[])[] {
  const groups: WriteOfEvent[][] = [];
  let attributes = 0;
  for (const event of events) {
    const group = groups.at(-1);
    const last = group?.at(-1);
    attributes += event.write.attributes.length;
    if (group && last && canCombine(last, event) && attributes <= MAX_ATTRIBUTES) {
      group.push(event);
    } else {
      groups.push([event]);
      attributes = event.write.attributes.length;
    }
  }
  return groups;
}

function canCombine(one: WriteOfEvent, other: WriteOfEvent): boolean {
  const { write: left } = one;
  const { write: right } = other;
  return (
    // The owner of a previous id is only known during the write.
    left.previousIdentity === undefined &&
    right.previousIdentity === undefined &&
    left.org === right.org &&
    left.region === right.region &&
    left.receivedAt === right.receivedAt &&
    left.happenedAt === right.happenedAt &&
    areSame(left.identities, right.identities) &&
    areSame(spellingsOf(left), spellingsOf(right))
  );
}

function areSame(left: readonly Identity[], right: readonly Identity[]): boolean {
  return (
    left.length === right.length &&
    left.every(({ type, value }, at) => type === right[at]?.type && value === right[at].value)
  );
}

function spellingsOf({ olderSpellings = [] }: ProfileWrite): readonly Identity[] {
  return olderSpellings.map(({ identity }) => identity);
}

/**
 * The single write for a group of `combinable`. Of an attribute that occurs several times the store keeps one value.
 */
export function combined(first: ProfileWrite, others: readonly ProfileWrite[]): ProfileWrite {
  if (others.length === 0) return first;
  return { ...first, attributes: [first, ...others].flatMap(({ attributes }) => attributes) };
}
