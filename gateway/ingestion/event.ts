import {
  type CanonicalEvent,
  canonicalTime,
  contractSubject,
  EVENT_TYPES,
  type EventType,
  eventKey,
  isObject,
  type JsonObject,
  MAX_CANONICAL_EVENT_BYTES,
  MAX_EVENT_BYTES,
  newId,
  type WriteKey,
} from '@tributary/core';
import type { FastifyRequest } from 'fastify';
import { type TSchema, Type } from 'typebox';
import { ApiError, type ErrorDetail, invalidRequest } from '../errors/api-error.ts';
import { describeValidation } from '../errors/error-handler.ts';
import { closed, DATE_OR_TIME, documentedAs } from '../resources/schemas.ts';

/** The types of the platform API's own events; the Segment API takes all. */
export const NATIVE_TYPES = ['track', 'identify', 'page', 'group'] as const satisfies readonly EventType[];
type NativeType = (typeof NATIVE_TYPES)[number];

/** One event as a producer sends it. `null` means the same as absent. */
export interface EventBody {
  readonly message_id?: string | null;
  readonly user_id?: string | null;
  readonly anonymous_id?: string | null;
  readonly timestamp?: string | null;
  readonly context?: JsonObject | null;
  readonly event?: string;
  readonly properties?: JsonObject | null;
  readonly name?: string | null;
  readonly category?: string | null;
  readonly traits?: JsonObject | null;
  readonly group_id?: string;
  readonly previous_id?: string | null;
  readonly integrations?: JsonObject | null;
}

/** Characters of a `message_id`. */
export const MAX_MESSAGE_ID = 100;

const text = (description: string) => Type.String({ minLength: 1, description });
const optionalText = (description: string, options: object = {}) =>
  Type.Optional(
    Type.Unsafe<string | null>({ type: ['string', 'null'], minLength: 1, description, ...options }),
  );
const optionalObject = (description: string) =>
  Type.Optional(Type.Unsafe<JsonObject | null>({ type: ['object', 'null'], description }));

const common = {
  message_id: optionalText('Identifies the event; a repeated one is dropped. Assigned when absent.', {
    maxLength: MAX_MESSAGE_ID,
  }),
  user_id: optionalText('The subject. This or `anonymous_id` is required.'),
  anonymous_id: optionalText('The subject while its `user_id` is unknown.'),
  timestamp: optionalText(
    'When it happened, ISO 8601; without a zone it is UTC. Kept as RFC 3339 in UTC with milliseconds. Default: the server’s time.',
    documentedAs({ anyOf: [...DATE_OR_TIME.anyOf, { type: 'null' }] }),
  ),
  context: optionalObject('Circumstances: device, location, library.'),
};

const fields: Readonly<Record<NativeType, Readonly<Record<string, TSchema>>>> = {
  track: { event: text('The name of the event.'), properties: optionalObject('Facts about the action.') },
  identify: { traits: optionalObject('Facts about the user.') },
  page: {
    name: optionalText('The page’s name.', { minLength: 0 }),
    properties: optionalObject('Facts about the view: url, title, referrer.'),
  },
  group: {
    group_id: text('The group the user belongs to.'),
    traits: optionalObject('Facts about the group.'),
  },
};

/** At least one of the two is required. */
const SUBJECT = {
  anyOf: ['user_id', 'anonymous_id'].map((id) => ({
    required: [id],
    properties: { [id]: { type: 'string' } },
  })),
};

export const eventBodies: Readonly<Record<NativeType, TSchema>> = {
  track: eventBody('track', 'TrackEvent', {
    event: 'Order Placed',
    user_id: 'ada',
    properties: { order_id: 'o-1', total: 12.5 },
  }),
  identify: eventBody('identify', 'IdentifyEvent', { user_id: 'ada', traits: { email: 'ada@example.com' } }),
  page: eventBody('page', 'PageEvent', {
    anonymous_id: 'a-1',
    name: 'Home',
    properties: { url: 'https://example.com/' },
  }),
  group: eventBody('group', 'GroupEvent', { user_id: 'ada', group_id: 'engines', traits: { plan: 'pro' } }),
};

function eventBody(type: NativeType, title: string, example: EventBody): TSchema {
  return closed({ ...fields[type], ...common }, { title, examples: [example], ...documentedAs(SUBJECT) });
}

/** The schemas of items of a batch, by their `type`. */
export type ItemSchemas = Readonly<Partial<Record<EventType, TSchema>>>;

/** One event of the platform API with its `type`. */
export const batchItems: ItemSchemas = Object.fromEntries(
  NATIVE_TYPES.map((type) => [type, itemOf(type, fields[type])]),
);

const view = { ...fields.page, category: optionalText('Its category.', { minLength: 0 }) };

/** An event of any type, with the fields that calls of the Segment API have besides. */
export const callItems: Readonly<Record<EventType, TSchema>> = {
  track: callItem('track', fields.track),
  identify: callItem('identify', fields.identify),
  page: callItem('page', view),
  screen: callItem('screen', view),
  group: callItem('group', fields.group),
  alias: callItem('alias', {
    ...fields.identify,
    previous_id: optionalText('The id of the user before.'),
  }),
};

function callItem(type: EventType, own: Readonly<Record<string, TSchema>>): TSchema {
  return itemOf(type, { ...own, integrations: optionalObject('Which destinations receive it.') });
}

function itemOf(type: EventType, own: Readonly<Record<string, TSchema>>): TSchema {
  return Type.Object({ type: Type.Literal(type), ...own, ...common }, { additionalProperties: false });
}

/** The types of items that schemas take, in words. */
export function typesIn(schemas: ItemSchemas): string {
  return EVENT_TYPES.filter((type) => schemas[type] !== undefined).join(', ');
}

export const MAX_BATCH = 2_500;

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

/** The response to a single event that is refused: 413 for its size, else 400. */
export function refusedEvent(
  { error, details }: { readonly error: string; readonly details: readonly ErrorDetail[] },
  fields: ApiError['fields'] = {},
): ApiError {
  return new ApiError(error === 'payload too large' ? 413 : 400, error, { details, fields });
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

/** The entity of a workspace for which an event is tried. */
type TriedBy = Pick<WriteKey, 'id' | 'workspace_id' | 'name' | 'created_by' | 'created_at' | 'updated_at'>;

/** The canonical form of an event for a dry run. 400, or 413 for its size, as at ingestion. */
export function readTrialEvent(
  request: FastifyRequest,
  triedBy: TriedBy,
  item: JsonObject,
  receivedAt: string,
): CanonicalEvent {
  const type = EVENT_TYPES.find((known) => known === item.type);
  if (type === undefined)
    throw invalidRequest({ path: '/type', message: `must be one of ${EVENT_TYPES.join(', ')}` });
  const validate = request.compileValidationSchema(callItems[type]);
  if (!validate(item)) throw invalidRequest(...describeValidation(validate.errors ?? [], 'body'));
  const shaped = shapeEvent(type, item as EventBody, trialKey(triedBy), receivedAt);
  if (!shaped.ok) throw refusedEvent(shaped);
  return shaped.event;
}

/** Stands in for the write key of the producer. */
function trialKey({ id, workspace_id, name, created_by, created_at, updated_at }: TriedBy): WriteKey {
  return {
    id,
    workspace_id,
    name,
    environment: 'development',
    source_id: null,
    pubsub_topic: '',
    hash: '',
    key_prefix: '',
    status: 'active',
    version: 1,
    created_by,
    created_at,
    updated_at,
  };
}
