import { EVENT_TYPES, type EventType, isObject } from '@tributary/core';

export function isCallType(text: unknown): text is EventType {
  return EVENT_TYPES.some((type) => type === text);
}

/** Fields of any call with a place in the canonical event. */
export const COMMON_FIELDS = [
  ...['type', 'messageId', 'userId', 'anonymousId', 'timestamp', 'context', 'integrations'],
];

/** Further such fields, by the type of the call. */
export const CALL_FIELDS: Readonly<Record<EventType, readonly string[]>> = {
  track: ['event', 'properties'],
  identify: ['traits'],
  page: ['name', 'category', 'properties'],
  screen: ['name', 'category', 'properties'],
  group: ['groupId', 'traits'],
  alias: ['previousId', 'traits'],
};

/** Credentials are not part of the event. */
export const DROPPED = ['writeKey'];

export type Fields = Readonly<Record<string, unknown>>;

/** PHP writes an empty object as an empty list. */
export function objectOf(value: unknown): unknown {
  return Array.isArray(value) && value.length === 0 ? {} : value;
}

/** RudderStack's browser SDK writes a missing id as an empty string. */
export function textOf(value: unknown): unknown {
  return value === '' ? undefined : value;
}

/** `null` means the same as absent. */
export function withoutAbsent(fields: Fields): Fields {
  return Object.fromEntries(
    Object.entries(fields).filter(([, value]) => value !== undefined && value !== null),
  );
}

/** The fields of a batch that apply to all of its calls. */
export interface Frame {
  /** When the request was sent, by the client's clock, ISO 8601. */
  readonly sentAt?: unknown;
  readonly context?: unknown;
  readonly integrations?: unknown;
  /** All other fields of the batch; never empty. */
  readonly others?: Fields;
}

/** Reads the fields beside the calls of a batch. */
export function frameOf(fields: Fields): Frame {
  const { sentAt, ...besides } = withoutAbsent(fields);
  const isShared = (name: string) =>
    (name === 'context' || name === 'integrations') && isObject(objectOf(besides[name] ?? {}));
  const others = Object.entries(besides).filter(([name]) => !DROPPED.includes(name) && !isShared(name));
  return {
    sentAt,
    ...(isShared('context') ? { context: besides.context } : {}),
    ...(isShared('integrations') ? { integrations: besides.integrations } : {}),
    ...(others.length === 0 ? {} : { others: Object.fromEntries(others) }),
  };
}

/**
 * Whether the events of a batch, or one of them, would be too large with the fields of the frame, which each of them gets.
 * Checked once before the conversion, as a body of 4 MiB could become thousands of times as large.
 */
export function isTooLarge(
  frameBytes: number,
  calls: number,
  limits: { readonly eventBytes: number; readonly bodyBytes: number },
): boolean {
  return frameBytes > limits.eventBytes || frameBytes * calls > limits.bodyBytes;
}

/** JSON bytes of the frame fields that each event gets. */
export function bytesOf({ context, integrations, others }: Frame): number {
  return [context, integrations, others]
    .filter((part) => part !== undefined)
    .reduce<number>((sum, part) => sum + Buffer.byteLength(JSON.stringify(part)), 0);
}
