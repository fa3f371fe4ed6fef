import type { Delivery } from './delivery.ts';
import { BEFORE_EVENT, readDelivery } from './read-delivery.ts';

/** What stands right before the event of a delivery that was never tried, as it is written. */
const FRESH = '"attempts":[],"redrives":0';

/** A delivery as the log has it. It is read when that is first asked for: most are only passed on to who sends them. */
export class StoredDelivery {
  readonly text: string;
  #read: Delivery | undefined;

  constructor(text: string) {
    this.text = text;
  }

  /** Throws `InvalidInput` where the text is no delivery. */
  get delivery(): Delivery {
    this.#read ??= readDelivery(this.text);
    return this.#read;
  }

  /** Whether it was neither attempted nor redriven. Throws as `delivery` does, where the text has to be read for it. */
  get isFresh(): boolean {
    if (this.#read === undefined && showsFresh(this.text)) return true;
    const { attempts, redrives } = this.delivery;
    return attempts.length === 0 && redrives === 0;
  }
}

/**
 * Nothing before the event holds an event, and a quote inside of a string is escaped: so the first mark is the event's,
 * and what stands before it are members of the delivery.
 */
function showsFresh(text: string): boolean {
  const at = text.indexOf(`${BEFORE_EVENT}{`);
  return at > 0 && text.startsWith(FRESH, at - FRESH.length);
}
