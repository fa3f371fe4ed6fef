import type { EventType } from '@tributary/core';

/** The types of SDK calls, and their event types. */
export const CALLS = {
  track: 'track',
  identify: 'identify',
  page: 'page',
  screen: 'page',
  group: 'group',
  alias: 'identify',
} as const satisfies Record<string, EventType>;

export type SdkCallType = keyof typeof CALLS;

export function isSdkCallType(text: unknown): text is SdkCallType {
  return typeof text === 'string' && Object.hasOwn(CALLS, text);
}

/** Fields of any call with a place in the canonical event. */
export const COMMON_FIELDS = ['type', 'messageId', 'userId', 'anonymousId', 'timestamp', 'context'];

/** Further such fields, by the type of the call. */
export const CALL_FIELDS: Readonly<Record<SdkCallType, readonly string[]>> = {
  track: ['event', 'properties'],
  identify: ['traits'],
  page: ['name', 'properties'],
  screen: ['name', 'properties'],
  group: ['groupId', 'traits'],
  alias: ['previousId', 'traits'],
};

/** Credentials are not part of the event. */
export const DROPPED = ['writeKey'];

export type Fields = Readonly<Record<string, unknown>>;

export function isObject(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !JSON.isRawJSON(value);
}

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
  const { sentAt, context: stated, integrations, ...besides } = withoutAbsent(fields);
  const isContext = isObject(objectOf(stated ?? {}));
  const context = isContext ? stated : undefined;
  const rest = isContext ? besides : { ...besides, context: stated };
  const others = Object.entries(rest).filter(([name]) => !DROPPED.includes(name));
  return {
    sentAt,
    context,
    integrations,
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
