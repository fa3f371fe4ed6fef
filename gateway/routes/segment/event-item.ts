import { canonicalTime, type JsonObject, nameId } from '@tributary/core';
import { withNote } from '../../ingestion/canonical-event.ts';
import { type Change, noteOf } from './changes.ts';
import { contextOf } from './event-context.ts';
import {
  CALLS,
  type Call,
  type Fields,
  type Frame,
  isCall,
  isObject,
  objectOf,
  PLACES,
  textOf,
  withoutAbsent,
} from './sdk-call.ts';

/** Characters of a `message_id`. */
const MAX_MESSAGE_ID = 100;

/**
 * A call of the Segment API as an item of a batch of ours, to be checked by the same schema. Nothing that was said is lost:
 *
 * - fields that our event does not have are in `context.segment`, under their own names, and those of its batch in
 *   `context.segment.batch`;
 * - a `screen` is a page with `context.screen` (the device's screen stays beside it) and `context.segment.type`;
 * - an `alias` is an identify with `context.alias.previous_id` and `context.segment.type`;
 * - the traits of an identify are also found in `context.traits`, where RudderStack's SDKs have them;
 * - where `timestamp` is not what was sent (corrected by `sentAt`, in another form, unreadable), `context.segment` has it
 *   as it came;
 * - what has the wrong type becomes text, or moves to `context.segment`, and `context.tributary.changed` says so.
 *
 * Ids that are whole numbers become text, and empty ones count as absent, as does an empty list where an object belongs:
 * that is how some SDKs write them. `receivedAt`: ISO 8601. `before`: what was changed when the body was read.
 */
export function eventItem(
  said: unknown,
  frame: Frame,
  receivedAt: string,
  before: readonly Change[] = [],
): unknown {
  if (!isObject(said) || !isCall(said.type)) return said;
  const { type } = said;
  const changes = [...before];
  const sentName = (name: string) => (said[name] === undefined ? (SNAKE_CASE[name] ?? name) : name);
  const { call, moved } = withObjects(inCamelCase(said), type, changes);
  const text = (name: string) => textIn(call, name, sentName(name), changes);
  const messageId = text('messageId');
  const isLong = messageId !== undefined && messageId.length > MAX_MESSAGE_ID;
  if (isLong) changes.push({ path: '/messageId', change: 'id_shortened' });
  const sentAt = call.sentAt ?? frame.sentAt;
  const timestamp = timeOf(call, sentAt, receivedAt, changes);
  const context = contextOf(call, type, frame, {
    previousId: PLACES[type].includes('previousId') ? text('previousId') : undefined,
    times: timestamp === call.timestamp ? { sentAt } : { sentAt, timestamp: call.timestamp },
    moved: isLong ? { ...moved, messageId } : moved,
  });
  const item = {
    type: CALLS[type],
    message_id: isLong ? nameId('message', messageId) : messageId,
    user_id: text('userId'),
    anonymous_id: text('anonymousId'),
    ...partsOf(call, type, text),
    timestamp,
  };
  // Fields are read before: each may have been changed.
  return withoutAbsent({
    ...item,
    context: changes.length === 0 ? context : withNote(context as JsonObject | undefined, noteOf(changes)),
  });
}

/** The call without what is no object where one belongs, and that. */
function withObjects(call: Fields, type: Call, changes: Change[]): { call: Fields; moved: Fields } {
  const wrong = ['properties', 'traits', 'context'].filter(
    (name) => (name === 'context' || PLACES[type].includes(name)) && !isObject(objectOf(call[name] ?? {})),
  );
  if (wrong.length === 0) return { call, moved: {} };
  for (const name of wrong) changes.push({ path: `/${name}`, change: 'moved' });
  const entries = Object.entries(call);
  return {
    call: Object.fromEntries(entries.filter(([name]) => !wrong.includes(name))),
    moved: Object.fromEntries(entries.filter(([name]) => wrong.includes(name))),
  };
}

/** When it happened: by `timestamp`, else `originalTimestamp`, by the server's clock where that can be told. */
function timeOf(
  { timestamp, originalTimestamp }: Fields,
  sentAt: unknown,
  receivedAt: string,
  changes: Change[],
): string | undefined {
  const isKnown = readTime(timestamp) !== undefined;
  if (!isKnown && timestamp != null) changes.push({ path: '/timestamp', change: 'time_unreadable' });
  const happened = isKnown ? timestamp : originalTimestamp;
  return correctedTime(happened, sentAt, receivedAt) ?? readTime(happened);
}

function readTime(time: unknown): string | undefined {
  return typeof time === 'string' ? canonicalTime(time) : undefined;
}

/** The calls for e-mails in Segment's own documents have `user_id`. It counts where nobody is named otherwise. */
function inCamelCase(call: Fields): Fields {
  if (isNamed(call.userId) || isNamed(call.anonymousId)) return call;
  const { user_id: userId, anonymous_id: anonymousId, ...rest } = call;
  return { ...rest, userId, anonymousId };
}

const SNAKE_CASE: Readonly<Record<string, string>> = { userId: 'user_id', anonymousId: 'anonymous_id' };

function isNamed(id: unknown): boolean {
  return id != null && id !== '';
}

/** What only some types have. */
function partsOf(call: Fields, type: Call, text: (name: string) => string | undefined): Fields {
  const placed = PLACES[type];
  const of = (name: string, read: (name: string) => unknown) =>
    placed.includes(name) ? read(name) : undefined;
  return {
    event: of('event', (name) => (call[name] === '' ? '' : text(name))),
    name: of('name', text),
    group_id: of('groupId', text),
    properties: of('properties', (name) => objectOf(call[name])),
    traits: of('traits', (name) => (type === 'identify' ? traitsOf(call[name], call) : objectOf(call[name]))),
  };
}

/** A field as text, by the name it was sent under; undefined where it says nothing. */
function textIn(call: Fields, name: string, sentName: string, changes: Change[]): string | undefined {
  const value = textOf(call[name]);
  if (value === undefined || value === null || typeof value === 'string') return value ?? undefined;
  if (Number.isSafeInteger(value)) return String(value);
  if (typeof value === 'object' && Object.keys(value).length === 0) return undefined;
  changes.push({ path: `/${sentName}`, change: 'as_text' });
  return JSON.stringify(value);
}

/** RudderStack's SDKs have what an identify says of somebody in the context, beside none or empty ones. It stays there too. */
function traitsOf(traits: unknown, { context }: Fields): unknown {
  const own = objectOf(traits);
  if (isObject(own) && Object.keys(own).length > 0) return own;
  const theirs = isObject(context) ? objectOf(context.traits) : undefined;
  return isObject(theirs) ? theirs : own;
}

/** With its zone: without one nobody knows which moment a text means. */
const ZONED = /:\d{2}.*(?:[Zz]|[+-]\d{2}(?::?\d{2})?)$/;

/** Past it a time needs more than four digits for its year. */
const LATEST = Date.parse('9999-12-31T23:59:59.999Z');
const EARLIEST = Date.parse('0001-01-01T00:00:00.000Z');

/** By how much an event may lie behind its sending, ms. Beyond it `sent_at` is no time of sending, such as the zero of Go. */
const MAX_AHEAD = 24 * 60 * 60 * 1000;

/**
 * When an event happened by the server's clock: `received_at - (sent_at - original)`. The client's clock may be wrong,
 * but it is as wrong when it sends as it was when the event happened. Undefined where the client did not say both as
 * ISO 8601 times with their zone, or one of them cannot be what it says; then its word stands.
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
