import { DEAD_CAUSES, ENVIRONMENTS, MISMATCHES } from '@tributary/core';
import { Type } from 'typebox';
import { closed, freeObject, listOf, nullable, oneOf, time, uuid } from '../../resources/schemas.ts';
import { timeText } from '../../resources/values.ts';
import { attempt } from '../deliveries/schemas.ts';

export const whereaboutsQuery = closed({
  environment: Type.Optional(
    oneOf(ENVIRONMENTS, 'Where one id was sent to both. Default: production first.'),
  ),
  around: Type.Optional(
    timeText(
      'About when it was received, ISO 8601: for an event whose id tells no time and that is older than the window of repeated ids.',
    ),
  ),
  subject: Type.Optional(
    Type.String({
      minLength: 1,
      description: 'Its `user_id`, else `anonymous_id`: makes that search quicker.',
    }),
  ),
});

const position = Type.Object(
  {
    topic: Type.String(),
    partition: Type.Integer(),
    offset: Type.Integer(),
    index: Type.Integer(),
  },
  { title: 'LogPosition' },
);

const stage = nullable(
  oneOf(
    ['validate', 'validate.slow', 'route', 'route.slow', 'deliver', 'deliver.slow', 'deliver.retry'],
    'The stage it waits for; null when for none.',
  ),
);

const violation = Type.Object({
  kind: Type.String(),
  path: Type.String(),
  message: Type.String(),
  action: Type.String(),
});

const delivery = Type.Object(
  {
    id: uuid,
    index: Type.Integer({ description: 'Which output of the transformation; 0 without one.' }),
    destination_id: uuid,
    status: oneOf(
      ['pending', 'retrying', 'delivered', 'dead', 'discarded', 'unknown'],
      '`unknown` where not all was looked at that tells it, or a stage gave it up.',
    ),
    stage,
    first_try: Type.Boolean({
      description: 'Delivered at its first try. Of those nothing but that is kept: `attempts` is empty.',
    }),
    attempts: listOf(attempt, 'Oldest first.'),
    reason: nullable(Type.String()),
    cause: nullable(oneOf(DEAD_CAUSES)),
    created_at: time,
    next_attempt_at: nullable(time),
  },
  { title: 'WhereaboutsDelivery' },
);

const rule = Type.Object(
  {
    rule_id: uuid,
    name: Type.String(),
    version: Type.Integer({
      description: 'Of the rule as it is now, by which the event is held against it.',
    }),
    destination_id: uuid,
    matched: nullable(Type.Boolean({ description: 'Null when it cannot be told.' })),
    because: nullable(oneOf([...MISMATCHES, 'not_at_the_time'], 'Why it did not match.')),
    message: nullable(Type.String({ description: 'How the filter failed.' })),
    changed_since: Type.Boolean({
      description: 'It was changed after the event was accepted: its deliveries say whether it matched.',
    }),
    stage,
    transformation_id: nullable(uuid),
    transformation: oneOf(['none', 'outputs', 'dropped', 'failed', 'unknown']),
    deliveries: listOf(delivery),
  },
  { title: 'WhereaboutsRule' },
);

export const whereaboutsResource = Type.Object(
  {
    message_id: Type.String(),
    environment: oneOf(ENVIRONMENTS),
    status: oneOf([
      'under_way',
      'delivered',
      'dead',
      'discarded',
      'not_forwarded',
      'rejected',
      'failed',
      'unknown',
    ]),
    stage,
    received: Type.Object({
      at: time,
      position,
      key_id: nullable(Type.String({ description: 'The write key that sent it.' })),
    }),
    contract: nullable(
      Type.Unsafe<{
        outcome: string;
        contract_id: string | null;
        contract_version: number | null;
        violations: readonly object[];
        reevaluated: object | null;
      }>(
        Type.Object({
          outcome: oneOf(['accepted', 'warned', 'omitted', 'rejected']),
          contract_id: nullable(uuid),
          contract_version: nullable(Type.Integer()),
          violations: listOf(violation),
          reevaluated: nullable(
            Type.Object(
              {
                outcome: oneOf(['accepted', 'warned', 'omitted']),
                contract_id: nullable(uuid),
                contract_version: nullable(Type.Integer()),
                replay_id: uuid,
                at: time,
              },
              { description: 'It was rejected, and a replay of rejected events let it pass.' },
            ),
          ),
        }),
      ),
    ),
    accepted: nullable(Type.Object({ at: time, position })),
    failed: nullable(
      Type.Object({ stage: Type.String(), error: Type.String() }, { description: 'A stage gave it up.' }),
    ),
    rules: listOf(rule),
    event: freeObject('As it was received.'),
    looked: Type.Object(
      {
        complete: Type.Boolean({ description: 'False when something was left out for lack of time.' }),
        entries: Type.Integer(),
        duration_ms: Type.Integer(),
        unanswered: listOf(Type.String(), 'Engines that did not answer.'),
      },
      { description: 'How far the look went.' },
    ),
  },
  { title: 'Whereabouts' },
);
