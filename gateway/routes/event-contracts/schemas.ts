import {
  ENFORCEMENT_MODES,
  ENVIRONMENTS,
  EVENT_TYPES,
  UNDECLARED_FIELDS,
  VIOLATION_KINDS,
} from '@tributary/core';
import { Type } from 'typebox';
import { pageQuery } from '../../http/lists.ts';
import {
  closed,
  description,
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
} from '../../http/schemas.ts';
import { timeText } from '../../http/times.ts';

const eventType = oneOf(EVENT_TYPES);
const eventName = Type.String({
  maxLength: 1_000,
  description: 'Of a track event or a page. Empty: any name without a contract of its own.',
});
const schemaDefinition = freeObject(
  'What `properties` (track, page) or `traits` (identify, group) must look like: field to `{ type, required }`, or JSON Schema.',
);

export const contractBody = closed(
  {
    name,
    event_type: eventType,
    event_name: optional(eventName),
    description: optional(description),
    schema_definition: schemaDefinition,
    enforcement_mode: optional(oneOf(ENFORCEMENT_MODES, 'Default `warn`.')),
    undeclared_fields: optional(oneOf(UNDECLARED_FIELDS, 'Default `allow`.')),
  },
  {
    title: 'ContractBody',
    examples: [
      {
        name: 'Orders',
        event_type: 'track',
        event_name: 'Order Placed',
        schema_definition: { properties: { order_id: { type: 'string', required: true } } },
        enforcement_mode: 'block',
      },
    ],
  },
);

const status = oneOf(['active', 'archived']);

export const contractQuery = closed({ ...pageQuery, status: Type.Optional(status) });

export const contractResource = Type.Object(
  {
    ...resourceFields,
    event_type: eventType,
    event_name: Type.String(),
    description: nullable(description),
    schema_definition: schemaDefinition,
    enforcement_mode: oneOf(ENFORCEMENT_MODES),
    undeclared_fields: oneOf(UNDECLARED_FIELDS),
    status,
    version,
    created_by: uuid,
    ...times,
  },
  { title: 'Contract' },
);

export const contractList = listOf(contractResource);

const ACTIONS = ['warned', 'omitted', 'blocked'] as const;

export const violationQuery = closed({
  ...pageQuery,
  kind: Type.Optional(oneOf(VIOLATION_KINDS)),
  action: Type.Optional(oneOf(ACTIONS)),
  path: Type.Optional(Type.String({ description: 'Exactly this place of the event.' })),
  since: timeText('ISO 8601; received then or later.'),
  until: timeText('ISO 8601; received before then.'),
});

export const violationResource = Type.Object(
  {
    id: uuid,
    contract_id: uuid,
    contract_version: Type.Integer(),
    message_id: Type.String(),
    environment: oneOf(ENVIRONMENTS),
    event_type: eventType,
    event_name: Type.String(),
    kind: oneOf(VIOLATION_KINDS),
    path: Type.String({ description: 'JSON pointer below `properties` or `traits`.' }),
    message: Type.String(),
    action: oneOf(ACTIONS),
    received_at: time,
  },
  { title: 'Violation' },
);

export const violationList = listOf(violationResource);

export const trialBody = freeObject(
  'An event as producers send it. `type`, and the name, default to those of the contract.',
);

export const trialResult = Type.Object(
  {
    outcome: oneOf(['accepted', 'warned', 'omitted', 'rejected']),
    violations: violationList,
    event: nullable(freeObject('The event as it would be accepted; null when it would be rejected.')),
  },
  { title: 'ContractTrial' },
);
