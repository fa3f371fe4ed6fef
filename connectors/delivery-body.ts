import type { CanonicalEvent, Delivery } from '@tributary/core';

/** A delivery as every destination that takes JSON sees it. */
export interface DeliveryBody {
  /** The idempotency key: the same on every attempt. */
  readonly id: string;
  readonly type: 'event';
  readonly event: CanonicalEvent;
  readonly rule_id: string;
  readonly destination_id: string;
  /** 1 at the first try. */
  readonly attempt: number;
  /** Id of the replay it is part of; absent on what was sent as its event came. */
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
