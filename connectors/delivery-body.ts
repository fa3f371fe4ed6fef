import { type CanonicalEvent, type Delivery, eventJson } from '@tributary/core';

/** A delivery as every destination that takes JSON sees it. */
export interface DeliveryBody {
  /** The idempotency key: the same on every attempt, and in every replay that was not asked for new ids. */
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

/** The same as JSON, with the event as the log has it: it is the larger part, and was JSON before. */
export function deliveryJson(delivery: Delivery): string {
  const { id, rule_id, destination_id, attempts, replay } = delivery;
  const about = JSON.stringify({ rule_id, destination_id, attempt: attempts.length + 1, replay });
  return `{"id":${JSON.stringify(id)},"type":"event","event":${eventJson(delivery)},${about.slice(1)}`;
}
