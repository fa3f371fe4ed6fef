import type { Delivery } from './delivery.ts';
import { eventJson } from './event-text.ts';

/** The delivery as the log has it, its event last and as it stands there where it came from there. */
export function deliveryText(delivery: Delivery): string {
  const envelope: Record<string, unknown> = {};
  for (const name of Object.keys(delivery) as (keyof Delivery)[]) {
    if (name !== 'event') envelope[name] = delivery[name];
  }
  return `${JSON.stringify(envelope).slice(0, -1)},"event":${eventJson(delivery)}}`;
}
