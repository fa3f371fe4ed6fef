import {
  type CanonicalEvent,
  canonicalTime,
  contractSubject,
  type EventType,
  eventKey,
  isObject,
  type JsonObject,
  MAX_CANONICAL_EVENT_BYTES,
  MAX_EVENT_BYTES,
  newId,
  type WriteKey,
} from '@tributary/core';
import type { ErrorDetail } from '../errors/api-error.ts';
import type { EventBody } from './event-schemas.ts';

/** An event that passed every check of its shape, ready for the log. */
export interface ShapedEvent {
  readonly ok: true;
  readonly event: CanonicalEvent;
  /** The JSON text of `event`, the form that is made durable. */
  readonly text: string;
  readonly key: string;
}

interface RefusedEvent {
  readonly ok: false;
  readonly error: 'invalid request' | 'payload too large';
  readonly details: readonly ErrorDetail[];
}

/** The sizes that count for an event whose canonical form was converted from another format. */
interface Sent {
  /** The item as it was sent. */
  readonly item: unknown;
  /** Bytes of the batch's shared fields, which count as part of the item. */
  readonly besideBytes: number;
}

/**
 * Checks what JSON Schema cannot express, and builds the canonical event, with its fields in a fixed order. A time that
 * was not sent in the canonical form is kept in `context.tributary.timestamp`.
 *
 * - `isExact`: the body may hold exact numbers; the text has their digits, the event has doubles.
 * - `sent`: absent when `body` is the item as sent.
 */
export function shapeEvent(
  type: EventType,
  body: EventBody,
  key: WriteKey,
  receivedAt: string,
  isExact = false,
  sent?: Sent,
): ShapedEvent | RefusedEvent {
  const userId = body.user_id ?? undefined;
  const anonymousId = body.anonymous_id ?? undefined;
  if (userId === undefined && anonymousId === undefined) {
    return refuse('/user_id', 'user_id or anonymous_id is required');
  }
  if (isExact) {
    const rawField = (['properties', 'traits', 'context', 'integrations'] as const).find((name) =>
      JSON.isRawJSON(body[name]),
    );
    if (rawField !== undefined) return refuse(`/${rawField}`, 'must be an object or null');
  }
  const { traits, context } = type === 'identify' || type === 'alias' ? withTraitsInOnePlace(body) : body;
  const sentTime = body.timestamp ?? receivedAt;
  const timestamp = sentTime === receivedAt ? receivedAt : canonicalTime(sentTime);
  if (timestamp === undefined) return refuse('/timestamp', 'must be an ISO 8601 time');
  const describes = contractSubject(type);
  const isView = type === 'page' || type === 'screen';
  const event = {
    message_id: body.message_id ?? newId(),
    type,
    event: type === 'track' ? (body.event ?? '') : undefined,
    name: isView ? (body.name ?? undefined) : undefined,
    category: isView ? (body.category ?? undefined) : undefined,
    group_id: type === 'group' ? (body.group_id ?? '') : undefined,
    previous_id: type === 'alias' ? (body.previous_id ?? undefined) : undefined,
    user_id: userId,
    anonymous_id: anonymousId,
    properties: describes === 'properties' ? (body.properties ?? undefined) : undefined,
    traits: describes === 'traits' ? (traits ?? undefined) : undefined,
    context: timestamp === sentTime ? (context ?? undefined) : withNote(context, { timestamp: sentTime }),
    integrations: body.integrations ?? undefined,
    timestamp,
    received_at: receivedAt,
    environment: key.environment,
    workspace_id: key.workspace_id,
    source_id: key.source_id ?? undefined,
  } as CanonicalEvent; // absent fields are `undefined` here and left out of the JSON text
  const text = JSON.stringify(event);
  if (exceeds(text, MAX_EVENT_BYTES) && isTooLarge(text, sent ?? { item: body, besideBytes: 0 })) {
    return {
      ok: false,
      error: 'payload too large',
      details: [{ path: '', message: `the event has more than ${MAX_EVENT_BYTES} bytes` }],
    };
  }
  return {
    ok: true,
    event: isExact ? (JSON.parse(text) as CanonicalEvent) : event,
    text,
    key: eventKey(event),
  };
}

/**
 * RudderStack's SDKs send the traits of an identify or alias in `context.traits`, others beside their own. The event has them in
 * `traits` alone, where contracts check them: what a contract omits must not be delivered as a copy. Of a trait in both
 * places that of `traits` counts.
 */
function withTraitsInOnePlace({ traits, context }: EventBody): Pick<EventBody, 'traits' | 'context'> {
  const { traits: copied, ...others } = context ?? {};
  if (!isObject(copied)) return { traits: traits ?? null, context: context ?? null };
  return { traits: { ...copied, ...traits }, context: others };
}

function refuse(path: string, message: string): RefusedEvent {
  return { ok: false, error: 'invalid request', details: [{ path, message }] };
}

/** Fields that ingestion adds do not count against the producer's limit. */
function isTooLarge(text: string, { item, besideBytes }: Sent): boolean {
  const sentBytes = Buffer.byteLength(JSON.stringify(item)) + besideBytes;
  return sentBytes > MAX_EVENT_BYTES || exceeds(text, MAX_CANONICAL_EVENT_BYTES);
}

/** Whether the UTF-8 form is longer than `bytes`. The length in UTF-16 units decides most cases without counting. */
function exceeds(text: string, bytes: number): boolean {
  if (text.length > bytes) return true;
  return text.length * 3 > bytes && Buffer.byteLength(text) > bytes;
}

/** The member of an event's context that records changes by ingestion. */
const NOTE = 'tributary';

/** Adds a record of changes to a context. A member of the same name moves into the record, as `context`. */
export function withNote(context: JsonObject | null | undefined, note: JsonObject): JsonObject {
  const original = context?.[NOTE];
  return { ...context, [NOTE]: original === undefined ? note : { ...note, context: { [NOTE]: original } } };
}
