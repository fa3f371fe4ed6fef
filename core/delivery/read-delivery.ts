import { InvalidInput } from '../errors/errors.ts';
import { parseExact } from '../json/exact-numbers.ts';
import { parseObject } from '../json/parse-object.ts';
import type { Delivery } from './delivery.ts';
import { withEventText } from './event-text.ts';

/** What stands before the event in a delivery as JSON. */
export const BEFORE_EVENT = ',"event":';

/**
 * The delivery that an entry holds. Its event is left as text where it stands last, as those who write deliveries put
 * it. Throws `InvalidInput` for what is none.
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
 * A quote inside of a string is escaped, so the mark is that of a member, and what is before it is whole only where it
 * is a member of the delivery itself. The event is its only member that is an object: a text that ends with the end of
 * an object and its own ends with the event.
 */
function withoutParsing(text: string): Partial<Delivery> | undefined {
  const at = text.indexOf(`${BEFORE_EVENT}{`);
  if (at < 0 || !text.endsWith('}}')) return undefined;
  try {
    const envelope: Omit<Delivery, 'event'> = JSON.parse(`${text.slice(0, at)}}`);
    return withEventText(envelope, text.slice(at + BEFORE_EVENT.length, -1));
  } catch {
    // It is another event's: the whole is parsed, and judged, by who asked.
    return undefined;
  }
}

/** Without asking for one that is left as text. */
function hasEvent(delivery: Partial<Delivery>): boolean {
  if (Object.getOwnPropertyDescriptor(delivery, 'event')?.get !== undefined) return true;
  return typeof delivery.event === 'object' && delivery.event !== null;
}
