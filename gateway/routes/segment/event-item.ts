import {
  canonicalTime,
  EVENT_TYPES,
  type EventType,
  isObject,
  type JsonObject,
  nameId,
} from '@tributary/core';
import type { RejectedItem } from '../../ingestion/batch.ts';
import { type Change, noteOf } from '../../ingestion/changes.ts';
import { MAX_MESSAGE_ID, withNote } from '../../ingestion/event.ts';

/**
 * Converts a call of the Segment API into an item of the platform's batch API, to be validated by the same schema. Nothing
 * that was sent is lost:
 *
 * - fields that the event does not have are in `context.segment`, under their own names, and those of its batch in
 *   `context.segment.batch`;
 * - when `timestamp` is not as sent (corrected by `sentAt`, in another form, unreadable), `context.segment` has it as
 *   sent;
 * - values of the wrong type become text or move to `context.segment`, and `context.tributary.changed` lists them.
 *
 * Integer ids become text; empty ids, and empty lists in the place of objects, count as absent, as some SDKs write these.
 * `receivedAt`: ISO 8601. `before`: the changes that reading the body has made.
 */
export function eventItem(
  sent: unknown,
  frame: Frame,
  receivedAt: string,
  before: readonly Change[] = [],
): unknown {
  if (!isObject(sent) || !isCallType(sent.type)) return sent;
  const { type } = sent;
  const changes = [...before];
  const sentName = (name: string) => (sent[name] === undefined ? (SNAKE_CASE[name] ?? name) : name);
  const { call, moved } = withObjects(inCamelCase(sent), type, changes);
  const text = (name: string) => textIn(call, name, sentName(name), changes);
  const messageId = text('messageId');
  const isLong = messageId !== undefined && messageId.length > MAX_MESSAGE_ID;
  if (isLong) changes.push({ path: '/messageId', change: 'id_shortened' });
  const sentAt = call.sentAt ?? frame.sentAt;
  const timestamp = timeOf(call, sentAt, receivedAt, changes);
  const context = contextOf(call, type, frame, {
    times: timestamp === call.timestamp ? { sentAt } : { sentAt, timestamp: call.timestamp },
    moved: isLong ? { ...moved, messageId } : moved,
  });
  const item = {
    type,
    message_id: isLong ? nameId('message', messageId) : messageId,
    user_id: text('userId'),
    anonymous_id: text('anonymousId'),
    ...partsOf(call, type, text),
    integrations: merged(objectOf(frame.integrations), objectOf(call.integrations)),
    timestamp,
  };
  // After all fields are read, as reading a field may add a change.
  return withoutAbsent({
    ...item,
    context: changes.length === 0 ? context : withNote(context as JsonObject | undefined, noteOf(changes)),
  });
}

const OBJECTS: readonly string[] = ['properties', 'traits', 'context', 'integrations'];

/** Separates fields that should be objects and are not from the call. */
function withObjects(call: Fields, type: EventType, changes: Change[]): { call: Fields; moved: Fields } {
  const wrong = OBJECTS.filter(
    (name) =>
      (COMMON_FIELDS.includes(name) || CALL_FIELDS[type].includes(name)) &&
      !isObject(objectOf(call[name] ?? {})),
  );
  if (wrong.length === 0) return { call, moved: {} };
  for (const name of wrong) changes.push({ path: `/${name}`, change: 'moved' });
  const entries = Object.entries(call);
  return {
    call: Object.fromEntries(entries.filter(([name]) => !wrong.includes(name))),
    moved: Object.fromEntries(entries.filter(([name]) => wrong.includes(name))),
  };
}

/**
 * The time of the event, by the server's clock if possible.
 *
 * - `timestamp` beside `originalTimestamp` or `receivedAt` was corrected by the server that received it first, as in
 *   archives, webhooks and replays of Segment and RudderStack: it counts as it is.
 * - `originalTimestamp` beside `receivedAt` is corrected by the times of that sending, not of this one.
 * - Otherwise `timestamp`, else `originalTimestamp`, is by the client's clock, and is corrected by `sentAt`.
 */
function timeOf(call: Fields, sentAt: unknown, receivedAt: string, changes: Change[]): string | undefined {
  const { timestamp, originalTimestamp } = call;
  const timestampRead = timeIn(call, 'timestamp', changes);
  const originalRead = timeIn(call, 'originalTimestamp', changes);
  const receivedRead = timeIn(call, 'receivedAt', changes);
  if (timestampRead !== undefined && (originalRead !== undefined || receivedRead !== undefined))
    return timestampRead;
  const happened = timestampRead === undefined ? originalTimestamp : timestamp;
  const corrected =
    receivedRead === undefined
      ? correctedTime(happened, sentAt, receivedAt)
      : correctedTime(happened, call.sentAt, receivedRead);
  return corrected ?? timestampRead ?? originalRead;
}

function timeIn(call: Fields, name: string, changes: Change[]): string | undefined {
  const time = readTime(call[name]);
  if (time === undefined && call[name] != null) changes.push({ path: `/${name}`, change: 'time_unreadable' });
  return time;
}

function readTime(time: unknown): string | undefined {
  return typeof time === 'string' ? canonicalTime(time) : undefined;
}

/** Accepts `user_id` and `anonymous_id`, as in Segment's own examples for e-mails, when no other id is set. */
function inCamelCase(call: Fields): Fields {
  if (isNamed(call.userId) || isNamed(call.anonymousId)) return call;
  const { user_id: userId, anonymous_id: anonymousId, ...rest } = call;
  return { ...rest, userId, anonymousId };
}

const SNAKE_CASE: Readonly<Record<string, string>> = { userId: 'user_id', anonymousId: 'anonymous_id' };

function isNamed(id: unknown): boolean {
  return id != null && id !== '';
}

function partsOf(call: Fields, type: EventType, text: (name: string) => string | undefined): Fields {
  const callFields = CALL_FIELDS[type];
  const of = (name: string, read: (name: string) => unknown) =>
    callFields.includes(name) ? read(name) : undefined;
  return {
    event: of('event', (name) => (call[name] === '' ? '' : text(name))),
    name: of('name', text),
    category: of('category', text),
    group_id: of('groupId', text),
    previous_id: of('previousId', text),
    properties: of('properties', (name) => objectOf(call[name])),
    traits: of('traits', (name) => objectOf(call[name])),
  };
}

/** A field as text; undefined when it is empty. `sentName`: its name in the call as sent. */
function textIn(call: Fields, name: string, sentName: string, changes: Change[]): string | undefined {
  const value = textOf(call[name]);
  if (value === undefined || value === null || typeof value === 'string') return value ?? undefined;
  if (Number.isSafeInteger(value)) return String(value);
  if (typeof value === 'object' && Object.keys(value).length === 0) return undefined;
  changes.push({ path: `/${sentName}`, change: 'as_text' });
  return JSON.stringify(value);
}

/** A time with a zone; without one the moment is unknown. */
const ZONED = /:\d{2}.*(?:[Zz]|[+-]\d{2}(?::?\d{2})?)$/;

/** The latest time with a year of four digits. */
const LATEST = Date.parse('9999-12-31T23:59:59.999Z');
const EARLIEST = Date.parse('0001-01-01T00:00:00.000Z');

/** How long an event may be after `sentAt`, ms. Beyond it `sentAt` is not a time of sending, such as Go's zero time. */
const MAX_AHEAD = 24 * 60 * 60 * 1000;

/**
 * The time of an event by the server's clock: `received_at - (sent_at - original)`. The client's clock may be wrong, but is
 * equally wrong at the event and at the sending. Undefined when one of both is not an ISO 8601 time with a zone, or is not
 * plausible; then the client's time is used.
 */
export function correctedTime(original: unknown, sentAt: unknown, receivedAt: string): string | undefined {
  const happened = momentOf(original);
  const sent = momentOf(sentAt);
  if (happened === undefined || sent === undefined || happened - sent > MAX_AHEAD) return undefined;
  const corrected = Date.parse(receivedAt) - (sent - happened);
  return corrected >= EARLIEST && corrected <= LATEST ? new Date(corrected).toISOString() : undefined;
}

/** Epoch ms. */
function momentOf(text: unknown): number | undefined {
  if (typeof text !== 'string' || !ZONED.test(text)) return undefined;
  const time = canonicalTime(text);
  return time === undefined ? undefined : Date.parse(time);
}

/** The member of the context for fields without a place in the canonical event. */
const KEPT = 'segment';

interface Extras {
  /** Times by the client's clock, as sent. */
  readonly times: Fields;
  /** Fields that the event cannot have as sent, such as a text where an object belongs. */
  readonly moved: Fields;
}

/**
 * The context of an event: that of the call over that of its batch, with the fields that have no other place. A member of a
 * producer's context with that name moves to `context.segment.context`.
 */
function contextOf(call: Fields, type: EventType, frame: Frame, { times, moved }: Extras): unknown {
  const callContext = objectOf(call.context ?? {});
  const shared = objectOf(frame.context ?? {});
  const own: Fields = { ...(isObject(shared) ? shared : {}), ...(isObject(callContext) ? callContext : {}) };
  const kept = withoutAbsent({
    ...restOf(call, type),
    ...moved,
    ...times,
    context: moved.context ?? (Object.hasOwn(own, KEPT) ? { [KEPT]: own[KEPT] } : undefined),
    ...ofBatch(frame, call.batch),
  });
  const context = Object.keys(kept).length > 0 ? { ...own, [KEPT]: kept } : own;
  return Object.keys(context).length > 0 || call.context != null ? context : undefined;
}

/** The fields of the call without a place in the canonical event. */
function restOf(call: Fields, type: EventType): Fields {
  const knownFields = new Set([...COMMON_FIELDS, ...CALL_FIELDS[type], ...DROPPED]);
  return Object.fromEntries(Object.entries(call).filter(([name]) => !knownFields.has(name)));
}

/**
 * The fields of the batch itself, separate from those of the call, as both may have e.g. a `messageId`. A field of the
 * call named `batch` is added to them; the name is free there, as `batch` holds the calls.
 */
function ofBatch({ others }: Frame, own: unknown): Fields {
  return others === undefined ? {} : { batch: withoutAbsent({ ...others, batch: own }) };
}

/** Merges an object of the batch with that of the call, which takes precedence. */
function merged(shared: unknown, own: unknown): unknown {
  return isObject(shared) && isObject(own) ? { ...shared, ...own } : (own ?? shared);
}

function isCallType(text: unknown): text is EventType {
  return EVENT_TYPES.some((type) => type === text);
}

/** Fields of any call with a place in the canonical event. */
const COMMON_FIELDS = [
  ...['type', 'messageId', 'userId', 'anonymousId', 'timestamp', 'context', 'integrations'],
];

/** Further such fields, by the type of the call. */
const CALL_FIELDS: Readonly<Record<EventType, readonly string[]>> = {
  track: ['event', 'properties'],
  identify: ['traits'],
  page: ['name', 'category', 'properties'],
  screen: ['name', 'category', 'properties'],
  group: ['groupId', 'traits'],
  alias: ['previousId', 'traits'],
};

/** Credentials are not part of the event. */
const DROPPED = ['writeKey'];

type Fields = Readonly<Record<string, unknown>>;

/** PHP writes an empty object as an empty list. */
function objectOf(value: unknown): unknown {
  return Array.isArray(value) && value.length === 0 ? {} : value;
}

/** RudderStack's browser SDK writes a missing id as an empty string. */
function textOf(value: unknown): unknown {
  return value === '' ? undefined : value;
}

/** `null` means the same as absent. */
function withoutAbsent(fields: Fields): Fields {
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

/** Field names of the canonical event, and of the Segment API. */
const NAMES: Readonly<Record<string, string>> = {
  message_id: 'messageId',
  user_id: 'userId',
  anonymous_id: 'anonymousId',
  group_id: 'groupId',
  previous_id: 'previousId',
};

const SNAKE = new RegExp(Object.keys(NAMES).join('|'), 'g');

/** The rejection of an event with the field names of the Segment API. */
export function rejectedCall({ index, error, details }: RejectedItem): RejectedItem {
  return {
    index,
    error,
    details: details.map(({ path, message }) => ({
      path: withCallNames(path),
      message: withCallNames(message),
    })),
  };
}

const withCallNames = (text: string) => text.replaceAll(SNAKE, (name) => NAMES[name] ?? name);
