import { ENVIRONMENTS } from '@tributary/core';
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
  times,
  uuid,
  version,
} from '../../http/schemas.ts';

const type = Type.String({ description: 'The connector that speaks to it.' });

export const destinationBody = closed({
  name,
  type,
  settings: optional(freeObject('By the schema of the connector.')),
  enabled: optional(Type.Boolean({ description: 'Default true.' })),
  paused: optional(
    Type.Boolean({ description: 'While true deliveries wait, for as long as it takes. Default false.' }),
  ),
  environments: optional(
    Type.Array(oneOf(ENVIRONMENTS), {
      uniqueItems: true,
      minItems: 1,
      description: 'Events of others do not go there, whatever rules say. Default all.',
    }),
  ),
});

export const destinationResource = Type.Object({
  ...resourceFields,
  type,
  settings: freeObject('Secrets are masked, but for those just generated in the answer to a creation.'),
  enabled: Type.Boolean(),
  paused: Type.Boolean(),
  environments: listOf(oneOf(ENVIRONMENTS)),
  version,
  created_by: uuid,
  ...times,
});

export const destinationTestResult = Type.Object({
  ok: Type.Boolean({ description: 'Whether the place is there and would take deliveries.' }),
  reason: nullable(Type.String({ description: 'Why not.' })),
  status: nullable(Type.Integer({ description: 'HTTP status, where there was one.' })),
  response: nullable(Type.String({ description: 'The start of what it answered.' })),
  duration_ms: Type.Integer(),
});

export const destinationList = listOf(destinationResource);
