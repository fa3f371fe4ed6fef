import type { CanonicalEvent } from '../event/event.ts';
import { InvalidInput } from '../primitives/errors.ts';
import { parseExact, parseObject } from '../primitives/json.ts';
import type { Delivery } from './delivery.ts';

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
export function withEventText(envelope: Omit<Delivery, 'event'>, text: string): Delivery {
  Object.defineProperty(envelope, TEXT, { value: text });
  return Object.defineProperty(envelope, 'event', PARSED_WHEN_ASKED) as Delivery;
}

/** A copy of the delivery with other members and the same event text. */
export function withFields(delivery: Delivery, fields: Partial<Omit<Delivery, 'event'>>): Delivery {
  const text = (delivery as DeliveryWithText)[TEXT];
  if (text === undefined) return { ...delivery, ...fields };
  return withEventText({ ...envelopeOf(delivery), ...fields }, text);
}

/** The delivery as its destination receives it: under its idempotency key. */
export function underIdempotencyKey(delivery: Delivery): Delivery {
  const { idempotency_key } = delivery;
  return idempotency_key === undefined ? delivery : withFields(delivery, { id: idempotency_key });
}

/** All members of a delivery but its event, which is not parsed for it. */
function envelopeOf(delivery: Delivery): Omit<Delivery, 'event'> {
  const names = Object.keys(delivery).filter((name) => name !== 'event') as (keyof Delivery)[];
  return Object.fromEntries(names.map((name) => [name, delivery[name]])) as unknown as Omit<
    Delivery,
    'event'
  >;
}

/** The event of a delivery as JSON: the text in the log, for a delivery that was read from there. */
export function eventJson(delivery: Delivery): string {
  return (delivery as DeliveryWithText)[TEXT] ?? JSON.stringify(delivery.event);
}

/** The value of a delivery's record in the log. The event stands last, so that `readDelivery` need not parse it. */
export function deliveryText(delivery: Delivery): string {
  return deliveryTextOf(envelopeOf(delivery), eventJson(delivery));
}

/** The same of a delivery that is made from the JSON text of its event. */
export function deliveryTextOf(envelope: Omit<Delivery, 'event'>, event: string): string {
  return `${JSON.stringify(envelope).slice(0, -1)}${BEFORE_EVENT}${event}}`;
}

/**
 * Reads the value of a delivery's record. An event that stands last is left as text. Throws `InvalidInput` for a text
 * that is no delivery.
 */
export function readDelivery(text: string): Delivery {
  const delivery = withoutParsing(text) ?? (parseObject(text, parseExact) as Partial<Delivery>);
  const { id, workspace_id, destination_id, created_at, attempts, redrives } = delivery;
  if (typeof id !== 'string' || typeof workspace_id !== 'string' || typeof destination_id !== 'string')
    throw new InvalidInput('no delivery');
  if (typeof created_at !== 'string' || Number.isNaN(Date.parse(created_at)))
    throw new InvalidInput('no time of creation');
  if (!Array.isArray(attempts) || typeof redrives !== 'number') throw new InvalidInput('no attempts');
  if (!hasEvent(delivery)) throw new InvalidInput('no event');
  return delivery as Delivery;
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
    const envelope: Omit<Delivery, 'event'> = JSON.parse(`${text.slice(0, at)}}`);
    return withEventText(envelope, text.slice(at + BEFORE_EVENT.length, -1));
  } catch {
    // The mark belongs to a nested event: the caller parses the whole text.
    return undefined;
  }
}

/** Does not parse an event that was left as text. */
function hasEvent(delivery: Partial<Delivery>): boolean {
  if (Object.getOwnPropertyDescriptor(delivery, 'event')?.get !== undefined) return true;
  return typeof delivery.event === 'object' && delivery.event !== null;
}
