import type { CanonicalEvent, JsonObject } from '../event/event.ts';
import { type IdentityFault, normaliseIdentity } from './identity.ts';
import type { Identity, NewAttribute, ProfileScope } from './profile.ts';
import type { ProfileWrite } from './profile-store.ts';

/** Categories of a profile that events write to. */
const TRAITS = 'traits';
const GROUPS = 'groups';

/** What an event says of somebody. */
export interface EventWrite {
  /** Absent when the event names nobody who could have a profile. */
  readonly write?: ProfileWrite;
  /** Identities of the event that are none, by what is wrong with them: placeholders above all. */
  readonly skipped: readonly IdentityFault[];
}

/**
 * An identify or group event as a write of the profile of whom it is about. What an identify event says of somebody
 * goes to the category `traits`; what a group event says of a group to `groups`, below the group's id, and a group about
 * which nothing is said is there, empty.
 *
 * Everything has the time at which the event was received and its place among the accepted ones, so that a replay
 * writes the same and of what one request brought the last word counts. E-mail address and
 * telephone number identify where they are a person's: the traits of a group are the group's.
 */
export function eventWrite(event: CanonicalEvent, scope: ProfileScope, offset: number): EventWrite {
  const identities: Identity[] = [];
  const skipped: IdentityFault[] = [];
  for (const [type, value] of namesIn(event)) {
    if (value === undefined || value === null) continue;
    const normalised = normaliseIdentity(type, value);
    if (normalised.kind === 'identity') identities.push(normalised.identity);
    else skipped.push(normalised.fault);
  }
  if (identities.length === 0) return { skipped };
  const receivedAt = Date.parse(event.received_at);
  const write: ProfileWrite = {
    org: scope.org,
    region: scope.region,
    identities,
    attributes: attributesIn(event).map((attribute) => ({ ...attribute, order: offset })),
    preferences: [],
    consents: [],
    ts: receivedAt,
    linking: 'keep-people-apart',
    receivedAt,
  };
  return { write, skipped };
}

/** By what the event may be known to be about somebody, most telling first. */
function namesIn({
  type,
  user_id,
  anonymous_id,
  traits,
}: CanonicalEvent): readonly (readonly [string, unknown])[] {
  const own = [['user_id', user_id] as const, ['anonymous_id', anonymous_id] as const];
  if (type !== 'identify') return own;
  return [...own, ['email', traits?.email], ['cellphone', traits?.phone]];
}

function attributesIn({ type, group_id, traits = {} }: CanonicalEvent): readonly NewAttribute[] {
  if (type === 'identify') return attributesBelow([TRAITS], traits);
  if (typeof group_id !== 'string' || group_id === '') return [];
  const ofGroup = attributesBelow([GROUPS, group_id], traits);
  return ofGroup.length > 0 ? ofGroup : [{ path: [GROUPS, group_id], value: {} }];
}

function attributesBelow(path: readonly string[], values: JsonObject): readonly NewAttribute[] {
  return Object.entries(values).map(([name, value]) => ({ path: [...path, name], value }));
}
