/** The types of events, as the API names them. */
export const EVENT_TYPES = ['track', 'identify', 'page', 'screen', 'group', 'alias'] as const;
export type EventType = (typeof EVENT_TYPES)[number];

export const ENVIRONMENTS = ['production', 'development'] as const;
export type Environment = (typeof ENVIRONMENTS)[number];

export function isEventType(value: unknown): value is EventType {
  return EVENT_TYPES.some((type) => type === value);
}

export function isEnvironment(value: unknown): value is Environment {
  return ENVIRONMENTS.some((environment) => environment === value);
}

/** The fields of an event that lists show. */
export interface EventFields {
  readonly messageId: string;
  readonly type: string;
  /** Name of a track, page or screen event, otherwise empty. */
  readonly name: string;
  /** The user or the anonymous visitor that it is about. */
  readonly subject: string;
  readonly environment: string;
  readonly receivedAt: string | undefined;
}

/** Reads an event of the API. It may be the output of a transformation, so any field may be missing. */
export function eventFieldsOf(event: Readonly<Record<string, unknown>>): EventFields {
  const text = (name: string) => (typeof event[name] === 'string' ? event[name] : '');
  return {
    messageId: text('message_id'),
    type: text('type'),
    name: text('type') === 'page' || text('type') === 'screen' ? text('name') : text('event'),
    subject: text('user_id') || text('anonymous_id'),
    environment: text('environment'),
    receivedAt: text('received_at') || undefined,
  };
}

/** `Order Completed`, or the type where events have no name: `identify`. */
export function eventTitle({ type, name }: Pick<EventFields, 'type' | 'name'>): string {
  return name === '' ? type : name;
}

/** The part of an event that contracts validate. */
export function payloadOf(type: string): 'properties' | 'traits' {
  return type === 'identify' || type === 'group' || type === 'alias' ? 'traits' : 'properties';
}

/** Whether events of this type have a name. */
export function hasName(type: string): boolean {
  return payloadOf(type) === 'properties';
}

/** Fields that the server adds to an event; a producer may not send them. */
const ADDED = new Set(['received_at', 'environment', 'workspace_id', 'source_id']);

/** The event as its producer sent it, without the fields that the server added. */
export function producerEventOf(event: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(event).filter(([name]) => !ADDED.has(name)));
}
