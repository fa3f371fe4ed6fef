export const EVENT_TYPES = ['track', 'identify', 'page', 'group'] as const;
export type EventType = (typeof EVENT_TYPES)[number];

export const ENVIRONMENTS = ['production', 'development'] as const;
export type Environment = (typeof ENVIRONMENTS)[number];

export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };
export type JsonObject = { readonly [key: string]: Json };

/**
 * The canonical event, the same in topics, transformations, webhooks and the live stream. Absent fields are left out.
 */
export interface CanonicalEvent {
  readonly message_id: string;
  readonly type: EventType;
  /** track */
  readonly event?: string;
  /** page */
  readonly name?: string;
  /** group */
  readonly group_id?: string;
  readonly user_id?: string;
  readonly anonymous_id?: string;
  /** track and page */
  readonly properties?: JsonObject;
  /** identify and group */
  readonly traits?: JsonObject;
  readonly context?: JsonObject;
  /** When it happened according to the producer, else `received_at`; in the form of `canonicalTime`. */
  readonly timestamp: string;
  /** ISO 8601: when the gateway received it. */
  readonly received_at: string;
  readonly environment: Environment;
  readonly workspace_id: string;
  readonly source_id?: string;
}

/** Bound on an event from a producer, bytes of JSON without white space. */
export const MAX_EVENT_BYTES = 32 * 1024;

/**
 * Bound on a canonical event. Ingestion adds ids, times and notes, less than 4 KiB, and `/v1` stores the traits of an
 * identify event twice. A transformation may return as much plus `OUTPUT_ROOM_BYTES`.
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

/** The event name for contracts, rules and volume: `event` of track, `name` of page, else `""`. */
export function eventName(event: Pick<CanonicalEvent, 'type' | 'event' | 'name'>): string {
  if (event.type === 'track') return event.event ?? '';
  if (event.type === 'page') return event.name ?? '';
  return '';
}

/** The part of an event that contracts check: `properties` of track and page, `traits` of identify and group. */
export function contractSubject(type: EventType): 'properties' | 'traits' {
  return type === 'track' || type === 'page' ? 'properties' : 'traits';
}
