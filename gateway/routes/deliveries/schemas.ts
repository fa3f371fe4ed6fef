import { ENVIRONMENTS } from '@tributary/core';
import { Type } from 'typebox';
import { pageQuery } from '../../http/lists.ts';
import { closed, freeObject, listOf, nullable, oneOf, optional, time, uuid } from '../../http/schemas.ts';

const STATUSES = ['retrying', 'delivered', 'dead'] as const;

export const deliveryQuery = closed({
  ...pageQuery,
  status: Type.Optional(oneOf(STATUSES)),
  destination_id: Type.Optional(uuid),
});

const attempt = Type.Object({
  at: time,
  outcome: oneOf(['delivered', 'retry', 'dead']),
  reason: nullable(Type.String()),
  status: nullable(Type.Integer({ description: 'HTTP status, where there was one.' })),
  response: nullable(Type.String({ description: 'The start of what the destination answered.' })),
  duration_ms: Type.Number(),
});

const fields = {
  id: uuid,
  status: oneOf(STATUSES),
  environment: oneOf(ENVIRONMENTS),
  destination_id: uuid,
  rule_id: uuid,
  message_id: Type.String(),
  reason: nullable(Type.String({ description: 'Why it is retrying or dead.' })),
  cause: nullable(oneOf(['transformation', 'destination', 'expired'], 'What made it dead.')),
  attempts: listOf(attempt, 'Oldest first.'),
  created_at: time,
  updated_at: time,
  next_attempt_at: nullable(time),
};

export const deliveryListed = Type.Object(fields, { title: 'Delivery' });

export const deliveryResource = Type.Object(
  {
    ...fields,
    event: freeObject('The event as it is delivered.'),
  },
  { title: 'DeliveryWithEvent' },
);

export const deliveryList = listOf(deliveryListed);

const cursor = Type.String({
  minLength: 1,
  maxLength: 1_000,
  description: 'From the answer before: goes on where that one stopped.',
});

export const redriveBody = nullable(
  closed({
    status: optional(oneOf(['dead'], 'Only dead deliveries can be redriven.')),
    destination_id: optional(Type.String({ format: 'uuid' })),
    cursor: optional(cursor),
  }),
);

export const redriveQuery = closed({
  status: Type.Optional(oneOf(['dead'])),
  destination_id: Type.Optional(uuid),
  cursor: Type.Optional(cursor),
});

/** A POST that needs no body: none, `null` or `{}`. */
export const noBody = nullable(closed({}));

export const redriven = Type.Object(
  {
    redriven: Type.Integer({ description: 'How many are under way again.' }),
    more: Type.Boolean({ description: 'One call has a bound: ask again with `cursor` for the rest.' }),
    cursor: nullable(
      Type.String({ description: 'Where the next call goes on; null when there is no more.' }),
    ),
  },
  { title: 'Redriven' },
);
