import type { CanonicalEvent } from '../event/event.ts';
import type { Delivery } from './delivery.ts';

/** What becomes of the object that is handed to it is what a subclass adds: no object of its own. */
class Upon {
  constructor(given: object) {
    // biome-ignore lint/correctness/noConstructorReturn: a private field is put on an object that is there already.
    return given;
  }
}

/**
 * Where a delivery that was read from the log keeps its event as it stands there: in a private field, which no copy of
 * the delivery has and nobody else sees. Twice as quick to put there as a hidden property.
 */
class EventText extends Upon {
  readonly #text: string;

  constructor(delivery: object, text: string) {
    super(delivery);
    this.#text = text;
  }

  static of(delivery: object): string | undefined {
    return #text in delivery ? delivery.#text : undefined;
  }
}

/** One for all, or each delivery would have a shape of its own. */
const PARSED_WHEN_ASKED: PropertyDescriptor & ThisType<Delivery> = {
  configurable: true,
  enumerable: true,
  get(): CanonicalEvent {
    const value: CanonicalEvent = JSON.parse(EventText.of(this) ?? 'null');
    Object.defineProperty(this, 'event', { value, enumerable: true });
    return value;
  },
};

/**
 * The delivery that `envelope`, which it becomes, makes with the event of this JSON text. The text is parsed when the
 * event is first asked for: most deliveries only pass it on, and thousands of them wait.
 */
export function withEventText(envelope: Omit<Delivery, 'event'>, text: string): Delivery {
  new EventText(envelope, text);
  return Object.defineProperty(envelope, 'event', PARSED_WHEN_ASKED) as Delivery;
}

/** The event of a delivery as JSON: what the log has of it, where the delivery came from there. */
export function eventJson(delivery: Delivery): string {
  return EventText.of(delivery) ?? JSON.stringify(delivery.event);
}
