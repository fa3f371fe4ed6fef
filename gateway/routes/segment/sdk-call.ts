import type { EventType } from '@tributary/core';

/** What an SDK sends as `type`, and the event type it becomes. */
export const CALLS = {
  track: 'track',
  identify: 'identify',
  page: 'page',
  screen: 'page',
  group: 'group',
  alias: 'identify',
} as const satisfies Record<string, EventType>;

export type Call = keyof typeof CALLS;

export function isCall(text: unknown): text is Call {
  return typeof text === 'string' && Object.hasOwn(CALLS, text);
}

/** Fields of any call that have a place in our event. */
export const COMMON_PLACES = ['type', 'messageId', 'userId', 'anonymousId', 'timestamp', 'context'];

/** Those that have one by the type of the call. */
export const PLACES: Readonly<Record<Call, readonly string[]>> = {
  track: ['event', 'properties'],
  identify: ['traits'],
  page: ['name', 'properties'],
  screen: ['name', 'properties'],
  group: ['groupId', 'traits'],
  alias: ['previousId', 'traits'],
};

/** Credentials are no part of an event. */
export const DROPPED = ['writeKey'];

export type Fields = Readonly<Record<string, unknown>>;

export function isObject(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !JSON.isRawJSON(value);
}

/** An empty list is how PHP writes an empty object. */
export function objectOf(value: unknown): unknown {
  return Array.isArray(value) && value.length === 0 ? {} : value;
}

/** RudderStack's browser SDK writes an id that it does not have as an empty text. */
export function textOf(value: unknown): unknown {
  return value === '' ? undefined : value;
}

/** `null` means the same as absent. */
export function withoutAbsent(fields: Fields): Fields {
  return Object.fromEntries(
    Object.entries(fields).filter(([, value]) => value !== undefined && value !== null),
  );
}

/** What a batch says of all its events. */
export interface Frame {
  /** ISO 8601, by the client's clock: when it sent the request. */
  readonly sentAt?: unknown;
  readonly context?: unknown;
  readonly integrations?: unknown;
  /** All else that it says of itself, such as an id or a number of its own; never empty. */
  readonly others?: Fields;
}

/** What stands beside the calls of a batch. */
export function frameOf(fields: Fields): Frame {
  const { sentAt, context: said, integrations, ...besides } = withoutAbsent(fields);
  const isContext = isObject(objectOf(said ?? {}));
  const context = isContext ? said : undefined;
  const rest = isContext ? besides : { ...besides, context: said };
  const others = Object.entries(rest).filter(([name]) => !DROPPED.includes(name));
  return {
    sentAt,
    context,
    integrations,
    ...(others.length === 0 ? {} : { others: Object.fromEntries(others) }),
  };
}

/**
 * Whether a batch of so many calls would be too large if each of them said what its frame says: one event, or all of
 * them. It is found out once, before any event has it: a body of 4 MiB could be made to weigh thousands of times that.
 */
export function isTooLarge(
  frameBytes: number,
  calls: number,
  limits: { readonly eventBytes: number; readonly bodyBytes: number },
): boolean {
  return frameBytes > limits.eventBytes || frameBytes * calls > limits.bodyBytes;
}

/** What a frame says of its events, bytes of JSON. */
export function bytesOf({ context, integrations, others }: Frame): number {
  return [context, integrations, others]
    .filter((part) => part !== undefined)
    .reduce<number>((sum, part) => sum + Buffer.byteLength(JSON.stringify(part)), 0);
}
