import type { Delivery } from './delivery.ts';
import { envelopeOf, eventJson } from './event-text.ts';

/** The delivery as the log has it, its event last and as it stands there where it came from there. */
export function deliveryText(delivery: Delivery): string {
  return `${JSON.stringify(envelopeOf(delivery)).slice(0, -1)},"event":${eventJson(delivery)}}`;
}
