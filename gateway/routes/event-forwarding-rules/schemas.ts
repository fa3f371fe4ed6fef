import { ENVIRONMENTS, EVENT_TYPES, MAX_FILTER_LENGTH, MISMATCHES } from '@tributary/core';
import { Type } from 'typebox';
import {
  closed,
  freeObject,
  listOf,
  name,
  nullable,
  oneOf,
  optional,
  resourceFields,
  time,
  times,
  uuid,
  version,
} from '../../resources/schemas.ts';
import { timeText } from '../../resources/values.ts';
import { coverage, EVENTS, SINCE } from '../event-contracts/schemas.ts';

const MAX_EVENT_NAMES = 1_000;

export const ruleBody = closed(
  {
    name,
    destination_id: Type.String({ format: 'uuid', description: 'Where matching events go.' }),
    event_types: optional(
      Type.Array(oneOf(EVENT_TYPES), { uniqueItems: true, description: 'Empty: all types. Default empty.' }),
    ),
    event_names: optional(
      Type.Array(Type.String({ minLength: 1 }), {
        uniqueItems: true,
        maxItems: MAX_EVENT_NAMES,
        description:
          'Names of track events and pages; `event_types` may then name no other type. Empty: all names. Default empty.',
      }),
    ),
    environments: optional(
      Type.Array(oneOf(ENVIRONMENTS), {
        uniqueItems: true,
        minItems: 1,
        description: 'Default `["production"]`.',
      }),
    ),
    transformation_id: optional(
      Type.String({ format: 'uuid', description: 'An enabled rule can name an active one only.' }),
    ),
    filter: optional(
      Type.String({
        minLength: 1,
        maxLength: MAX_FILTER_LENGTH,
        description:
          'A CEL expression over `event` that it has to pass, such as `event.properties.total > 100`.',
      }),
    ),
    enabled: optional(Type.Boolean({ description: 'Default true.' })),
  },
  {
    title: 'RuleBody',
    examples: [
      {
        name: 'Orders to the CRM',
        destination_id: '0198c5a2-7c1e-7b3a-9f60-2d1c5e8a4b70',
        event_types: ['track'],
        event_names: ['Order Placed'],
        filter: 'event.properties.total > 100',
      },
    ],
  },
);

export const ruleResource = Type.Object(
  {
    ...resourceFields,
    destination_id: uuid,
    event_types: listOf(oneOf(EVENT_TYPES)),
    event_names: listOf(Type.String()),
    environments: listOf(oneOf(ENVIRONMENTS)),
    transformation_id: nullable(uuid),
    filter: nullable(Type.String()),
    enabled: Type.Boolean(),
    version,
    created_by: uuid,
    ...times,
  },
  { title: 'Rule' },
);

export const ruleList = listOf(ruleResource);

export const ruleTestBody = closed(
  {
    event: freeObject('An event as producers send it, with its `type`.'),
    environment: optional(oneOf(ENVIRONMENTS, 'Default: the first of the rule.')),
  },
  {
    title: 'RuleTrialBody',
    examples: [
      { event: { type: 'track', event: 'Order Placed', user_id: 'ada', properties: { total: 120 } } },
    ],
  },
);

/** What a dry run tries: the part of a rule that chooses events. */
export const ruleDryRunBody = closed(
  {
    event_types: ruleBody.properties.event_types,
    event_names: ruleBody.properties.event_names,
    environments: ruleBody.properties.environments,
    filter: ruleBody.properties.filter,
    since: optional(timeText(SINCE)),
    events: optional(
      Type.Integer({
        minimum: EVENTS.min,
        maximum: EVENTS.max,
        description: `Events of these types, names and environments that are looked at, at most. Default ${EVENTS.fallback}.`,
      }),
    ),
  },
  {
    title: 'RuleDryRunBody',
    examples: [{ event_names: ['Order Placed'], filter: 'event.properties.quantity * 2 > 5' }],
  },
);

const VERDICTS = ['matched', 'not matched', 'failed', 'not evaluated'] as const;

export const ruleDryRunResult = Type.Object(
  {
    events: Type.Integer({
      description: 'Accepted events of these types, names and environments that were looked at.',
    }),
    matched: Type.Integer(),
    not_matched: Type.Integer({ description: 'Events for which the filter says false.' }),
    failed: Type.Integer({
      description: 'Events that would be dead deliveries, as the filter fails for them.',
    }),
    not_evaluated: Type.Integer({
      description:
        'Events for which the filter takes too much work, or that came when the dry run had used up its own.',
    }),
    failures: listOf(
      Type.Object({ message: Type.String(), events: Type.Integer() }),
      'How the filter fails; the first 20 ways.',
    ),
    examples: listOf(
      Type.Object({
        message_id: Type.String(),
        event_type: oneOf(EVENT_TYPES),
        event_name: Type.String(),
        environment: oneOf(ENVIRONMENTS),
        received_at: time,
        verdict: oneOf(VERDICTS),
        message: nullable(Type.String()),
      }),
      'The first events of each verdict, five at most.',
    ),
    coverage,
  },
  { title: 'RuleDryRun' },
);

/** Why a rule does not take an event. */
export const mismatch = {
  because: nullable(oneOf(MISMATCHES, 'Why it is not; null when it is.')),
  message: nullable(Type.String({ description: 'How the filter failed.' })),
};

export const ruleTestResult = Type.Object(
  {
    matched: Type.Boolean({ description: 'Whether such an event would be forwarded now.' }),
    ...mismatch,
  },
  { title: 'RuleTrial' },
);
