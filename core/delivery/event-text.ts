import type { CanonicalEvent } from '../event/event.ts';
import { parseExact } from '../json/exact-numbers.ts';
import type { Delivery } from './delivery.ts';

/** Where a delivery that was read from the log keeps its event as it stands there. No copy of the delivery has it. */
const TEXT = Symbol('event text');

type Kept = Delivery & { readonly [TEXT]?: string };

/** One for all, or each delivery would have a shape of its own. */
const PARSED_WHEN_ASKED: PropertyDescriptor & ThisType<Kept> = {
  configurable: true,
  enumerable: true,
  get(): CanonicalEvent {
    const value = parseExact<CanonicalEvent>(this[TEXT] ?? 'null');
    Object.defineProperty(this, 'event', { value, enumerable: true });
    return value;
  },
};

/**
 * The delivery that `envelope`, which it becomes, makes with the event of this JSON text. The text is parsed when the
 * event is first asked for: most deliveries only pass it on, and thousands of them wait.
 */
export function withEventText(envelope: Omit<Delivery, 'event'>, text: string): Delivery {
  Object.defineProperty(envelope, TEXT, { value: text });
  return Object.defineProperty(envelope, 'event', PARSED_WHEN_ASKED) as Delivery;
}

/** The delivery with other members, and its event as the log has it: a copy would parse and write it anew. */
export function withFields(delivery: Delivery, fields: Partial<Omit<Delivery, 'event'>>): Delivery {
  const text = (delivery as Kept)[TEXT];
  if (text === undefined) return { ...delivery, ...fields };
  return withEventText({ ...envelopeOf(delivery), ...fields }, text);
}

/** The delivery as its destination receives it: under its idempotency key. */
export function asReceived(delivery: Delivery): Delivery {
  const { idempotency_key } = delivery;
  return idempotency_key === undefined ? delivery : withFields(delivery, { id: idempotency_key });
}

/** All of a delivery but its event, which is not asked for. */
export function envelopeOf(delivery: Delivery): Omit<Delivery, 'event'> {
  const names = Object.keys(delivery).filter((name) => name !== 'event') as (keyof Delivery)[];
  return Object.fromEntries(names.map((name) => [name, delivery[name]])) as unknown as Omit<
    Delivery,
    'event'
  >;
}

/** The event of a delivery as JSON: what the log has of it, where the delivery came from there. */
export function eventJson(delivery: Delivery): string {
  return (delivery as Kept)[TEXT] ?? JSON.stringify(delivery.event);
}
