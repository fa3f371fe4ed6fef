import type { Delivery } from './delivery.ts';
import { deliveryText } from './delivery-text.ts';
import { BEFORE_EVENT, readDelivery } from './read-delivery.ts';

/** What stands right before the event of a delivery that was never tried, as it is written. */
const FRESH = '"attempts":[],"redrives":0';
const BEFORE_DESTINATION = '"destination_id":"';
const BEFORE_RULE = '"rule_id":"';
/** An index that nobody has looked for. */
const UNKNOWN = -2;

/**
 * A delivery as the log has it, and as it is read: each is made of the other when it is first asked for, since most
 * deliveries are only passed on to who sends them.
 */
export class StoredDelivery {
  #text: string | undefined;
  #delivery: Delivery | undefined;
  #eventAt = UNKNOWN;

  private constructor(text: string | undefined, delivery: Delivery | undefined) {
    this.#text = text;
    this.#delivery = delivery;
  }

  /** Of the text of one. Nothing is read. */
  static from(text: string): StoredDelivery {
    return new StoredDelivery(text, undefined);
  }

  static of(delivery: Delivery): StoredDelivery {
    return new StoredDelivery(undefined, delivery);
  }

  get text(): string {
    this.#text ??= deliveryText(this.delivery);
    return this.#text;
  }

  /** Throws `InvalidInput` where the text is no delivery. */
  get delivery(): Delivery {
    this.#delivery ??= readDelivery(this.text);
    return this.#delivery;
  }

  /** Whether it was neither attempted nor redriven. Throws as `delivery` does, where the text has to be read for it. */
  get isFresh(): boolean {
    if (this.#unread !== undefined && this.#showsFresh(this.#unread)) return true;
    const { attempts, redrives } = this.delivery;
    return attempts.length === 0 && redrives === 0;
  }

  /** Whether its destination is this one. Throws likewise. */
  isTo(destinationId: string): boolean {
    if (this.#unread !== undefined && this.#showsDestination(this.#unread, destinationId)) return true;
    return this.delivery.destination_id === destinationId;
  }

  /** Throws likewise. */
  get ruleId(): string {
    return (this.#unread === undefined ? undefined : this.#ruleIn(this.#unread)) ?? this.delivery.rule_id;
  }

  /** Its text, until it was read. */
  get #unread(): string | undefined {
    return this.#delivery === undefined ? this.#text : undefined;
  }

  /**
   * Nothing before the event holds an event, and a quote inside of a string is escaped: so the first mark is the
   * event's, and what stands before it are members of the delivery. Where the event is not last but first there is none.
   */
  #eventIn(text: string): number {
    if (this.#eventAt === UNKNOWN) this.#eventAt = text.indexOf(`${BEFORE_EVENT}{`);
    return this.#eventAt;
  }

  #showsFresh(text: string): boolean {
    const at = this.#eventIn(text);
    return at > 0 && text.startsWith(FRESH, at - FRESH.length);
  }

  #ruleIn(text: string): string | undefined {
    const at = text.indexOf(BEFORE_RULE);
    if (at <= 0 || at >= this.#eventIn(text)) return undefined;
    const begin = at + BEFORE_RULE.length;
    return text.slice(begin, text.indexOf('"', begin));
  }

  #showsDestination(text: string, id: string): boolean {
    const at = text.indexOf(BEFORE_DESTINATION);
    return at > 0 && at < this.#eventIn(text) && text.startsWith(`${id}"`, at + BEFORE_DESTINATION.length);
  }
}
