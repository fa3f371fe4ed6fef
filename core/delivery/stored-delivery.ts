import type { CanonicalEvent } from '../event/event.ts';
import type { LogEntry } from '../log/event-log.ts';
import { formatPosition, parsePosition } from '../log/event-log.ts';
import { HEADER } from '../log/topics.ts';
import { InvalidInput } from '../primitives/errors.ts';
import { parseExact, parseObject } from '../primitives/json.ts';
import { type Delivery, type DeliveryEnvelope, type EventReference, hasEvent } from './delivery.ts';

/**
 * An event of more bytes than this is not copied into each of its deliveries: they refer to the record that has it. A
 * smaller one is copied once for each delivery, as a reference would save little and cost a read.
 */
export const EMBEDDED_EVENT_BYTES = 1_024;

/** Property of a delivery read from the log: the JSON text of its event. Copies of the delivery do not have it. */
const TEXT = Symbol('event text');
/** The text before the event of a delivery as JSON. */
const BEFORE_EVENT = ',"event":';

type DeliveryWithText = Delivery & { readonly [TEXT]?: string };

/** One descriptor for all deliveries, so that they share a hidden class. */
const PARSED_WHEN_ASKED: PropertyDescriptor & ThisType<DeliveryWithText> = {
  configurable: true,
  enumerable: true,
  get(): CanonicalEvent {
    const value = parseExact<CanonicalEvent>(this[TEXT] ?? 'null');
    Object.defineProperty(this, 'event', { value, enumerable: true });
    return value;
  },
};

/**
 * Turns `envelope` into a delivery with the event of this JSON text. The text is parsed when the event is first read:
 * most connectors only pass it on, and numbers keep the digits they have in the log.
 */
export function withEventText(envelope: DeliveryEnvelope, text: string): Delivery {
  Object.defineProperty(envelope, TEXT, { value: text });
  return Object.defineProperty(envelope, 'event', PARSED_WHEN_ASKED) as Delivery;
}

/** A copy of the delivery with other members and the same event text. */
export function withFields<D extends DeliveryEnvelope>(
  delivery: D,
  fields: Partial<Omit<DeliveryEnvelope, 'event_at'>>,
): D {
  const text = textIn(delivery);
  if (text === undefined) return { ...delivery, ...fields };
  return withEventText({ ...envelopeOf(delivery), ...fields }, text) as DeliveryEnvelope as D;
}

/** The delivery with the event of this JSON text in place of its reference. */
export function withReferencedEvent(delivery: DeliveryEnvelope, text: string): Delivery {
  const { event_at: _, ...envelope } = delivery;
  return withEventText(envelope, text);
}

/** The delivery with a reference in place of its event. */
export function withReference(delivery: DeliveryEnvelope, event_at: EventReference): DeliveryEnvelope {
  return { ...envelopeOf(delivery), event_at };
}

/** Undefined for a delivery that was not read from a text. */
function textIn(delivery: DeliveryEnvelope): string | undefined {
  return (delivery as DeliveryWithText)[TEXT];
}

/** The delivery as its destination receives it: under its idempotency key. */
export function underIdempotencyKey(delivery: Delivery): Delivery {
  const { idempotency_key } = delivery;
  return idempotency_key === undefined ? delivery : withFields(delivery, { id: idempotency_key });
}

/** All members of a delivery but its event, which is not parsed for it. */
export function envelopeOf(delivery: DeliveryEnvelope): DeliveryEnvelope {
  const names = Object.keys(delivery).filter((name) => name !== 'event') as (keyof DeliveryEnvelope)[];
  return Object.fromEntries(names.map((name) => [name, delivery[name]])) as unknown as DeliveryEnvelope;
}

/** The event of a delivery as JSON: the text in the log, for a delivery that was read from there. */
export function eventJson(delivery: Delivery): string {
  return textIn(delivery) ?? JSON.stringify(delivery.event);
}

/** The value of a delivery's record in the log. The event stands last, so that `readDelivery` need not parse it. */
export function deliveryText(delivery: DeliveryEnvelope): string {
  if (!hasEvent(delivery)) return JSON.stringify(delivery);
  return deliveryTextOf(envelopeOf(delivery), eventJson(delivery));
}

/** The same of a delivery that is made from the JSON text of its event. */
export function deliveryTextOf(envelope: DeliveryEnvelope, event: string): string {
  return `${JSON.stringify(envelope).slice(0, -1)}${BEFORE_EVENT}${event}}`;
}

/**
 * Reads the value of a delivery's record. An event that stands last is left as text. Throws `InvalidInput` for a text
 * that is no delivery.
 */
export function readDelivery(text: string): DeliveryEnvelope {
  const delivery = withoutParsing(text);
  if (delivery !== undefined) return checked(delivery, true);
  return checked(parseObject(text, parseExact) as Partial<Delivery>);
}

function checked(delivery: Partial<Delivery>, hasText = false): DeliveryEnvelope {
  const { id, workspace_id, destination_id, created_at, attempts, redrives } = delivery;
  if (typeof id !== 'string' || typeof workspace_id !== 'string' || typeof destination_id !== 'string')
    throw new InvalidInput('no delivery');
  if (typeof created_at !== 'string' || Number.isNaN(Date.parse(created_at)))
    throw new InvalidInput('no time of creation');
  if (!Array.isArray(attempts) || typeof redrives !== 'number') throw new InvalidInput('no attempts');
  if (!hasText && !isEventObject(delivery) && !isReference(delivery.event_at))
    throw new InvalidInput('no event');
  return delivery as DeliveryEnvelope;
}

/** A delivery in fewer bytes: without what key and headers of its record say. The reference stands first. */
const BRIEF = '{"event_at":';

/** The value of the record on `deliveries` of a delivery whose event is elsewhere. See `readDeliveryEntry`. */
export function briefDeliveryText(delivery: DeliveryEnvelope, event_at: EventReference): string {
  const { workspace_id: _w, environment: _e, message_id: _m, destination_id: _d, ...rest } = delivery;
  return JSON.stringify({ event_at, ...rest });
}

/** Reads the delivery in a record. Throws `InvalidInput` for a record that holds none. */
export function readDeliveryEntry({
  key,
  value,
  headers,
}: Pick<LogEntry, 'key' | 'value' | 'headers'>): DeliveryEnvelope {
  if (!value.startsWith(BRIEF)) return readDelivery(value);
  return checked({
    workspace_id: headers[HEADER.workspaceId],
    environment: headers[HEADER.environment],
    message_id: headers[HEADER.messageId],
    destination_id: key.slice(0, Math.max(0, key.indexOf(':'))),
    ...parseObject(value),
  } as Partial<Delivery>);
}

function isReference(value: Partial<EventReference> | undefined): boolean {
  return (
    typeof value?.position === 'string' &&
    parsePosition(value.position) !== undefined &&
    Number.isFinite(value.bytes) &&
    Number.isFinite(value.timestamp)
  );
}

/** The event in a record that references point to: its value, or the event of the delivery that it is. */
export function referencedEventText({ position, value }: Pick<LogEntry, 'position' | 'value'>): string {
  if (!position.topic.startsWith(DELIVERY_TOPICS)) return value;
  const delivery = readDelivery(value);
  if (!hasEvent(delivery)) throw new InvalidInput(`${formatPosition(position)} has no event`);
  return eventJson(delivery);
}

const DELIVERY_TOPICS = 'deliveries';

/** The value of a record of `events.slow` that refers to its event. */
export interface ReferredEvent {
  readonly event_at: EventReference;
  /** ISO 8601: when the event was received. */
  readonly received_at: string;
}

const REFERRED = '{"event_at":';

export function referredEventText({ event_at, received_at }: ReferredEvent): string {
  return JSON.stringify({ event_at, received_at });
}

/** Undefined for a record whose value is the event. Throws `InvalidInput` for a reference that cannot be followed. */
export function readReferredEvent(text: string): ReferredEvent | undefined {
  if (!text.startsWith(REFERRED)) return undefined;
  const referred = parseObject(text) as Partial<ReferredEvent>;
  if (!isReference(referred.event_at) || Number.isNaN(Date.parse(referred.received_at ?? '')))
    throw new InvalidInput('a reference to no event');
  return referred as ReferredEvent;
}

/** A reference to the event in this entry, which it holds as `text`. */
export function referenceTo(
  { position, timestamp }: Pick<LogEntry, 'position' | 'timestamp'>,
  text: string,
): EventReference {
  return { position: formatPosition(position), bytes: Buffer.byteLength(text), timestamp };
}

/**
 * A quote inside of a string is escaped, so the mark is a member's name; the text before it is valid JSON only where it
 * is a member of the delivery itself. The event is the only member that is an object: a text that ends with two closing
 * braces ends with the event.
 */
function withoutParsing(text: string): Partial<Delivery> | undefined {
  const at = text.indexOf(`${BEFORE_EVENT}{`);
  if (at < 0 || !text.endsWith('}}')) return undefined;
  try {
    const envelope: DeliveryEnvelope = JSON.parse(`${text.slice(0, at)}}`);
    return withEventText(envelope, text.slice(at + BEFORE_EVENT.length, -1));
  } catch {
    // The mark belongs to a nested event: the caller parses the whole text.
    return undefined;
  }
}

function isEventObject({ event }: Partial<Delivery>): boolean {
  return typeof event === 'object' && event !== null;
}
