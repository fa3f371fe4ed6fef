/** The calls of the Segment API. The platform's own ingestion takes four of them, see `NATIVE_TYPES`. */
export const EVENT_TYPES = ['track', 'identify', 'page', 'screen', 'group', 'alias'] as const;
export type EventType = (typeof EVENT_TYPES)[number];

export const ENVIRONMENTS = ['production', 'development'] as const;
export type Environment = (typeof ENVIRONMENTS)[number];

/** One character each, as stores write them: never changed, and never used again for another one. */
export const ENVIRONMENT_CODES: Readonly<Record<Environment, string>> = { production: 'p', development: 'd' };
export const EVENT_TYPE_CODES: Readonly<Record<EventType, string>> = {
  track: 't',
  identify: 'i',
  page: 'p',
  screen: 's',
  group: 'g',
  alias: 'a',
};
export const ENVIRONMENT_OF_CODE: ReadonlyMap<string, Environment> = new Map(
  ENVIRONMENTS.map((environment) => [ENVIRONMENT_CODES[environment], environment]),
);
export const EVENT_TYPE_OF_CODE: ReadonlyMap<string, EventType> = new Map(
  EVENT_TYPES.map((type) => [EVENT_TYPE_CODES[type], type]),
);

export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };
export type JsonObject = { readonly [key: string]: Json };

/** Whether a value is a JSON object: no list, and no number with digits that a double loses. */
export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !JSON.isRawJSON(value);
}

/** The value, or an empty object for one that is none. */
export function objectIn(value: unknown): JsonObject {
  return isObject(value) ? value : {};
}

/**
 * The canonical event, the same in topics, transformations, webhooks and the live stream. Absent fields are left out.
 */
export interface CanonicalEvent {
  readonly message_id: string;
  readonly type: EventType;
  /** track */
  readonly event?: string;
  /** page and screen */
  readonly name?: string;
  /** page and screen */
  readonly category?: string;
  /** group */
  readonly group_id?: string;
  /** alias: the id of the user before. */
  readonly previous_id?: string;
  readonly user_id?: string;
  readonly anonymous_id?: string;
  /** track, page and screen */
  readonly properties?: JsonObject;
  /** identify, group and alias */
  readonly traits?: JsonObject;
  readonly context?: JsonObject;
  /** Which destinations receive it, by the word of the producer. */
  readonly integrations?: JsonObject;
  /** When it happened according to the producer, else `received_at`; in the form of `canonicalTime`. */
  readonly timestamp: string;
  /** ISO 8601: when the gateway received it. */
  readonly received_at: string;
  readonly environment: Environment;
  readonly workspace_id: string;
  readonly source_id?: string;
}

/** The names that an event can have at its top level. */
export const EVENT_FIELDS: readonly string[] = Object.keys({
  message_id: true,
  type: true,
  event: true,
  name: true,
  category: true,
  previous_id: true,
  integrations: true,
  group_id: true,
  user_id: true,
  anonymous_id: true,
  properties: true,
  traits: true,
  context: true,
  timestamp: true,
  received_at: true,
  environment: true,
  workspace_id: true,
  source_id: true,
} satisfies Record<keyof CanonicalEvent, true>);

/** The name of a field that other systems write `userId`. */
export function fieldFor(name: string): string {
  return name.replace(/(?<=[a-z])[A-Z]+/g, (letters) => `_${letters}`).toLowerCase();
}

/** Bound on an event from a producer, bytes of JSON without white space. */
export const MAX_EVENT_BYTES = 32 * 1024;

/**
 * Bound on a canonical event. Ingestion adds ids, times and notes, less than 4 KiB, and earlier releases stored the traits
 * of an identify event twice. A transformation may return as much plus `OUTPUT_ROOM_BYTES`.
 */
export const MAX_CANONICAL_EVENT_BYTES = 2 * MAX_EVENT_BYTES + 4 * 1024;

/** Bytes that a transformation may add to an event near the bound. */
export const OUTPUT_ROOM_BYTES = 1024;

/** The subject of an event: `user_id`, else `anonymous_id`. */
export function subjectOf(event: Pick<CanonicalEvent, 'user_id' | 'anonymous_id'>): string {
  return event.user_id ?? event.anonymous_id ?? '';
}

/** The key of an event's entries on the log: order is kept per workspace and subject. */
export function eventKey(event: Pick<CanonicalEvent, 'workspace_id' | 'user_id' | 'anonymous_id'>): string {
  return `${event.workspace_id}:${subjectOf(event)}`;
}

/** The event name for contracts, rules and volume: `event` of track, `name` of page and screen, else `""`. */
export function eventName(event: Pick<CanonicalEvent, 'type' | 'event' | 'name'>): string {
  if (event.type === 'track') return event.event ?? '';
  return hasName(event.type) ? (event.name ?? '') : '';
}

/** Whether events of this type have a name. */
export function hasName(type: EventType): boolean {
  return contractSubject(type) === 'properties';
}

/** The part of an event that contracts check: `properties` of track, page and screen, else `traits`. */
export function contractSubject(type: EventType): 'properties' | 'traits' {
  return type === 'track' || type === 'page' || type === 'screen' ? 'properties' : 'traits';
}
