import {
  type Contract,
  ENFORCEMENT_MODES,
  ENVIRONMENTS,
  EVENT_TYPES,
  MAX_ENUM,
  UNDECLARED_FIELDS,
  VIOLATION_KINDS,
} from '@tributary/core';
import { type Static, Type } from 'typebox';
import { byId, byText, byWord, catalogList } from '../../resources/catalog-list.ts';
import { pageQuery } from '../../resources/pagination.ts';
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
} from '../../resources/schemas.ts';
import { conditionalIntegerText, type IntegerRule, timeText } from '../../resources/values.ts';

export const eventType = oneOf(EVENT_TYPES);
const eventName = Type.String({
  maxLength: 1_000,
  description: 'Of a track event or a page. Empty: any name without a contract of its own.',
});
const schemaDefinition = freeObject(
  'The schema of `properties` (track, page) or `traits` (identify, group): field to `{ type, required }`, or JSON Schema.',
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

/** The parameter `events`: how many recent events are read. */
export const EVENTS: IntegerRule = { name: 'events', min: 1, max: 10_000, fallback: 1_000 };

export const contractLists = catalogList<Contract>()({
  textOf: ({ name, event_name }) => `${name}\n${event_name}`,
  textDescription: 'Part of the name, or of the name of its events, in any case.',
  fields: ['name', 'created_at', 'updated_at'],
  filters: {
    event_type: byWord(EVENT_TYPES, 'Only those of this type of events.', ({ event_type }) => event_type),
    event_name: byText('Only those of this name of events.', ({ event_name }) => event_name),
    enforcement_mode: byWord(
      ENFORCEMENT_MODES,
      'Only of this mode.',
      (contract) => contract.enforcement_mode,
    ),
    created_by: byId('Only those that this account created.', ({ created_by }) => created_by),
  },
  own: { status: Type.Optional(status) },
});

export const versionsQuery = closed(pageQuery);

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

export const ACTIONS = ['warned', 'omitted', 'blocked'] as const;

export const SINCE = 'ISO 8601: events received then or later. Default: 24 hours ago.';

const lookBack = {
  since: Type.Optional(timeText(SINCE)),
  environment: Type.Optional(oneOf(ENVIRONMENTS, 'Default: both.')),
};

/** The query of creation and replacement. The other parameters require `dry_run=true`. */
export const changeQuery = closed({
  ...lookBack,
  dry_run: Type.Optional(
    oneOf(['true', 'false'], 'True: nothing is stored; the response shows the result for recent events.'),
  ),
  events: conditionalIntegerText(EVENTS, 'Events of a dry run at most; requires `dry_run=true`.'),
});

export const coverage = Type.Object(
  {
    since: time,
    oldest: nullable(time),
    newest: nullable(time),
    omitted: Type.Integer({
      description: 'Of the events, those that had lost undeclared fields to `omit`: they were seen without.',
    }),
    records: Type.Integer({ description: 'Entries of the log that were read, of every workspace.' }),
    bytes: Type.Integer(),
    complete: Type.Boolean({ description: 'Every event since then was read.' }),
    stopped_by: nullable(oneOf(['events', 'records', 'bytes', 'time'])),
  },
  { title: 'Coverage', description: 'How much of the log was read.' },
);

export const OUTCOMES = ['accepted', 'warned', 'omitted', 'rejected'] as const;
const violationPath = Type.String({
  description: 'JSON pointer below `properties` or `traits`; `*` stands for any item of a list.',
});

export const dryRunResult = Type.Object(
  {
    dry_run: Type.Literal(true),
    events: Type.Integer(),
    outcomes: Type.Object({
      accepted: Type.Integer(),
      warned: Type.Integer(),
      omitted: Type.Integer(),
      rejected: Type.Integer(),
    }),
    violations: listOf(
      Type.Object({
        kind: oneOf(VIOLATION_KINDS),
        path: violationPath,
        message: Type.String(),
        action: oneOf(ACTIONS),
        events: Type.Integer({ description: 'How many events had it.' }),
      }),
      'Those of most events first.',
    ),
    violations_cut: Type.Boolean({
      description: 'There were more kinds and paths than are reported separately.',
    }),
    examples: listOf(
      Type.Object({
        message_id: Type.String(),
        environment: oneOf(ENVIRONMENTS),
        event_name: Type.String(),
        received_at: time,
        outcome: oneOf(OUTCOMES),
        violations: listOf(
          Type.Object({
            kind: oneOf(VIOLATION_KINDS),
            path: Type.String(),
            message: Type.String(),
            action: oneOf(ACTIONS),
          }),
        ),
      }),
      'Some of the events that would not have passed untouched.',
    ),
    coverage,
  },
  { title: 'DryRun' },
);

export const inferenceBody = closed(
  {
    event_type: eventType,
    event_name: optional(eventName),
    environment: optional(oneOf(ENVIRONMENTS, 'Default: both.')),
    since: optional(timeText(SINCE)),
    events: optional(
      Type.Integer({
        minimum: EVENTS.min,
        maximum: EVENTS.max,
        description: `At most. Default ${EVENTS.fallback}.`,
      }),
    ),
    required_ratio: optional(
      Type.Number({
        exclusiveMinimum: 0,
        maximum: 1,
        description: 'A field is required that this share of the events has. Default 1.',
      }),
    ),
    enum_max: optional(
      Type.Integer({
        minimum: 0,
        maximum: MAX_ENUM,
        description: 'Members of an enumeration, at most; 0: enumerations are not inferred. Default 10.',
      }),
    ),
  },
  { title: 'InferenceBody', examples: [{ event_type: 'track', event_name: 'Order Placed' }] },
);

const JSON_TYPES = ['null', 'boolean', 'integer', 'number', 'string', 'object', 'array'] as const;

export const inferenceResult = Type.Object(
  {
    contract: nullable(
      Type.Object(
        {
          name,
          event_type: eventType,
          event_name: Type.String(),
          description: Type.String(),
          schema_definition: schemaDefinition,
          enforcement_mode: oneOf(ENFORCEMENT_MODES),
          undeclared_fields: oneOf(UNDECLARED_FIELDS),
        },
        { description: 'What `POST .../event-contracts` takes; null where there was no event.' },
      ),
    ),
    events: Type.Integer(),
    fields: listOf(
      Type.Object({
        path: violationPath,
        seen: Type.Integer({ description: 'How often it was there,' }),
        of: Type.Integer({ description: 'of the objects, or items, that could have held it.' }),
        required: Type.Boolean(),
        types: Type.Object(
          Object.fromEntries(JSON_TYPES.map((type) => [type, Type.Optional(Type.Integer())])),
        ),
        format: nullable(Type.String()),
        enum: nullable(Type.Array(Type.String())),
        minimum: nullable(Type.Number()),
        maximum: nullable(Type.Number()),
      }),
      'Every path of the events.',
    ),
    coverage,
  },
  { title: 'Inference' },
);

export function presentContract(contract: Contract): Static<typeof contractResource> {
  return {
    id: contract.id,
    workspace_id: contract.workspace_id,
    name: contract.name,
    event_type: contract.event_type,
    event_name: contract.event_name,
    description: contract.description,
    schema_definition: contract.schema_definition,
    enforcement_mode: contract.enforcement_mode,
    undeclared_fields: contract.undeclared_fields,
    status: contract.status,
    version: contract.version,
    created_by: contract.created_by,
    created_at: contract.created_at,
    updated_at: contract.updated_at,
  };
}
