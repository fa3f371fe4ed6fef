import {
  type CanonicalEvent,
  DEAD_CAUSES,
  type DeliveryAttempt,
  type DeliveryOutcome,
  ENVIRONMENTS,
} from '@tributary/core';
import { type Static, Type } from 'typebox';
import { pageQuery } from '../../resources/pagination.ts';
import {
  closed,
  freeObject,
  listOf,
  nullable,
  oneOf,
  optional,
  time,
  uuid,
} from '../../resources/schemas.ts';
import { filterBody, filterQuery } from './delivery-list.ts';

const STATUSES = ['retrying', 'delivered', 'unwanted', 'dead', 'discarded'] as const;

export const deliveryQuery = closed({
  ...pageQuery,
  status: Type.Optional(oneOf(STATUSES)),
  ...filterQuery,
});

export const attempt = Type.Object(
  {
    at: time,
    outcome: oneOf(['delivered', 'retry', 'dead']),
    throttled: Type.Boolean({
      description:
        'Whether the destination refused it for the rate of requests alone: it used no step of the retry schedule.',
    }),
    reason: nullable(Type.String()),
    status: nullable(Type.Integer({ description: 'HTTP status, where there was one.' })),
    response: nullable(Type.String({ description: 'The start of the destination’s response.' })),
    duration_ms: Type.Number(),
  },
  { title: 'Attempt' },
);

const fields = {
  id: uuid,
  status: oneOf(STATUSES),
  environment: oneOf(ENVIRONMENTS),
  destination_id: uuid,
  rule_id: uuid,
  message_id: Type.String(),
  replay_id: nullable(uuid),
  idempotency_key: Type.String({
    format: 'uuid',
    description:
      'The id that the destination receives: `id`, or of a replay without `new_ids` that of the first delivery.',
  }),
  reason: nullable(Type.String({ description: 'Why it is retrying or dead.' })),
  cause: nullable(oneOf(DEAD_CAUSES, 'The cause of its death.')),
  attempts: listOf(attempt, 'Oldest first.'),
  created_at: time,
  updated_at: time,
  next_attempt_at: nullable(time),
};

const deliveryListed = Type.Object(fields, { title: 'Delivery' });

export const deliveryResource = Type.Object(
  {
    ...fields,
    event: nullable(
      freeObject(
        'The event as it is delivered; null where the log no longer has it: it cannot be sent again.',
      ),
    ),
  },
  { title: 'DeliveryWithEvent' },
);

export const deliveryList = listOf(deliveryListed);

const cursor = Type.String({
  minLength: 1,
  maxLength: 1_000,
  description: 'From the previous response: continues where that call stopped.',
});

/** Selects dead deliveries. */
export const deadBody = nullable(
  closed(
    {
      status: optional(oneOf(['dead'], 'Only dead deliveries can be redriven or discarded.')),
      ...filterBody,
      cursor: optional(cursor),
    },
    { examples: [{ status: 'dead', since: '2026-03-01T00:00:00.000Z' }] },
  ),
);

export const deadQuery = closed({
  status: Type.Optional(oneOf(['dead'])),
  ...filterQuery,
  cursor: Type.Optional(cursor),
});

const rest = {
  more: Type.Boolean({ description: 'A call has a limit: call again with `cursor` for the rest.' }),
  cursor: nullable(Type.String({ description: 'The cursor of the next call; null at the end.' })),
};

export const redriven = Type.Object(
  {
    redriven: Type.Integer({ description: 'The number of redriven deliveries.' }),
    ...rest,
  },
  { title: 'Redriven' },
);

export const discarded = Type.Object(
  {
    discarded: Type.Integer({ description: 'The number of discarded deliveries.' }),
    ...rest,
  },
  { title: 'Discarded' },
);

export function presentDelivery(outcome: DeliveryOutcome): Static<typeof deliveryListed> {
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

export function presentDeliveryDetail(
  outcome: DeliveryOutcome,
  event: CanonicalEvent | undefined,
): Static<typeof deliveryResource> {
  const shown = (event ?? null) as unknown as Static<typeof deliveryResource>['event'];
  return { ...presentDelivery(outcome), event: shown };
}

export function presentAttempt(made: DeliveryAttempt) {
  const { at, outcome, throttled, reason, status, response, duration_ms } = made;
  return {
    at,
    outcome,
    throttled: throttled === true,
    reason: reason ?? null,
    status: status ?? null,
    response: response ?? null,
    duration_ms,
  };
}
