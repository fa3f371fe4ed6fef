import { type CanonicalEvent, type Delivery, eventJson } from '@tributary/core';

/** The JSON body of a delivery, the same for all destinations. */
export interface DeliveryBody {
  /** The idempotency key: the same at every attempt, and in every replay without `new_ids`. */
  readonly id: string;
  readonly type: 'event';
  readonly event: CanonicalEvent;
  readonly rule_id: string;
  readonly destination_id: string;
  /** 1 at the first attempt. */
  readonly attempt: number;
  /** Id of the replay that made the delivery; absent otherwise. */
  readonly replay?: string;
}

export function deliveryBody(delivery: Delivery): DeliveryBody {
  return {
    id: delivery.id,
    type: 'event',
    event: delivery.event,
    rule_id: delivery.rule_id,
    destination_id: delivery.destination_id,
    attempt: delivery.attempts.length + 1,
    ...(delivery.replay === undefined ? {} : { replay: delivery.replay }),
  };
}

/** `deliveryBody` as text. The event, its larger part, is copied from the log instead of being serialized again. */
export function deliveryJson(delivery: Delivery): string {
  const { id, rule_id, destination_id, attempts, replay } = delivery;
  const attempt = attempts.length + 1;
  const about = JSON.stringify({ id, type: 'event', rule_id, destination_id, attempt, replay });
  // In a string its quotes would be escaped.
  const at = about.indexOf(',"rule_id":');
  return `${about.slice(0, at)},"event":${eventJson(delivery)}${about.slice(at)}`;
}
