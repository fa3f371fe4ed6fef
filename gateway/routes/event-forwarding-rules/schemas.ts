import { ENVIRONMENTS, EVENT_TYPES } from '@tributary/core';
import { Type } from 'typebox';
import {
  closed,
  listOf,
  name,
  nullable,
  oneOf,
  optional,
  resourceFields,
  times,
  uuid,
  version,
} from '../../http/schemas.ts';

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
        description: 'Names of track events and pages. Empty: all names. Default empty.',
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
    enabled: Type.Boolean(),
    version,
    created_by: uuid,
    ...times,
  },
  { title: 'Rule' },
);

export const ruleList = listOf(ruleResource);
