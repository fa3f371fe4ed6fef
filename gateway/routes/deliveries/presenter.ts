import type { Delivery, DeliveryAttempt, DeliveryOutcome, ListedOutcome } from '@tributary/core';
import type { Static } from 'typebox';
import type { deliveryListed, deliveryResource } from './schemas.ts';

export function presentDelivery(outcome: ListedOutcome): Static<typeof deliveryListed> {
  const { delivery, status, reason, cause, at, next_attempt_at } = outcome;
  return {
    id: delivery.id,
    status,
    environment: delivery.environment,
    destination_id: delivery.destination_id,
    rule_id: delivery.rule_id,
    message_id: delivery.message_id,
    replay_id: delivery.replay ?? null,
    idempotency_key: delivery.idempotency_key ?? delivery.id,
    reason: reason ?? null,
    cause: cause ?? null,
    attempts: delivery.attempts.map(presentAttempt),
    created_at: delivery.created_at,
    updated_at: at,
    next_attempt_at: next_attempt_at ?? null,
  };
}

export function presentDeliveryDetail(outcome: DeliveryOutcome): Static<typeof deliveryResource> {
  return { ...presentDelivery(outcome), event: eventOf(outcome.delivery) };
}

function eventOf({ event }: Delivery) {
  return event as unknown as Static<typeof deliveryResource>['event'];
}

export function presentAttempt({ at, outcome, reason, status, response, duration_ms }: DeliveryAttempt) {
  return {
    at,
    outcome,
    reason: reason ?? null,
    status: status ?? null,
    response: response ?? null,
    duration_ms,
  };
}
