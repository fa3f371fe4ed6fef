import type { CanonicalEvent, Json, JsonObject } from '../event/event.ts';
import { attributeOf, type NullHandling } from './attributes.ts';
import type { IsBlocked } from './identity/blocked-identities.ts';
import {
  formerSpellings,
  type IdentityFault,
  type IdentityReading,
  normaliseIdentity,
} from './identity/identity.ts';
import type { Identity, NewAttribute, ProfileScope } from './profile.ts';
import type { OlderSpelling, PreviousIdentity, ProfileWrite } from './profile-store.ts';

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

/** Where and how an event is written. */
export interface EventWriteOptions {
  readonly scope: ProfileScope;
  /** The offset of the event on `events.accepted`: orders values of the same time. */
  readonly offset: number;
  /** Whether a trait of `null` removes the attribute. Default `unset`. */
  readonly nulls?: NullHandling | undefined;
  /** How the organization reads identities. */
  readonly reading?: IdentityReading;
  /** The identities that the organization blocks. Default: none. */
  readonly isBlocked?: IsBlocked | undefined;
}

/**
 * Makes a profile write of an identify or group event. The traits of an identify event go to the category `traits`;
 * those of a group event to `groups`, below the group's id; a group without traits is written as an empty object. A trait
 * of `null` removes the attribute, as Segment's and RudderStack's libraries define it, unless `nulls` keeps it.
 *
 * Every value has the time of the event and its offset among the accepted events. So a late event replaces nothing
 * newer, a replay writes the same, and of two events of the same time the later in the log wins. E-mail addresses and
 * telephone numbers identify only where they are a person's: those in the traits of a group are not.
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
    ...(previousIdentity === undefined ? {} : { previousIdentity }),
    ...(olderSpellings.length === 0 ? {} : { olderSpellings }),
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
): PreviousIdentity | undefined {
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
  nulls: NullHandling,
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
  nulls: NullHandling,
): readonly NewAttribute[] {
  return Object.entries(values).map(([name, value]) =>
    attributeOf([...path, attributeName(name)], value, nulls),
  );
}

/** Attributes of one combined write at most: past it a call only grows. */
const MAX_ATTRIBUTES = 1_000;

/** What one event comes to. */
export interface WriteOfEvent {
  readonly messageId: string;
  readonly write: ProfileWrite;
}

/**
 * Events about one subject, in order, with those that follow each other in one group where a single write comes to what
 * one after the other would: those with the same identities that happened and were received in the same moment, as the
 * events of one request often are. So each meets the same owners, and what was deleted was deleted before all of them or after all.
 */
export function combinable(events: readonly WriteOfEvent[]): readonly (readonly WriteOfEvent[])[] {
  const groups: WriteOfEvent[][] = [];
  let attributes = 0;
  for (const event of events) {
    const group = groups.at(-1);
    const last = group?.at(-1);
    attributes += event.write.attributes.length;
    if (group && last && areOne(last, event) && attributes <= MAX_ATTRIBUTES) {
      group.push(event);
    } else {
      groups.push([event]);
      attributes = event.write.attributes.length;
    }
  }
  return groups;
}

function areOne(one: WriteOfEvent, other: WriteOfEvent): boolean {
  const { write: left } = one;
  const { write: right } = other;
  return (
    // Whom an alias names is only known when it is carried out.
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

/** The one write of a group of `combinable`. Of an attribute that is written several times the store keeps one. */
export function combined(first: ProfileWrite, others: readonly ProfileWrite[]): ProfileWrite {
  if (others.length === 0) return first;
  return { ...first, attributes: [first, ...others].flatMap(({ attributes }) => attributes) };
}
