import { Type } from 'typebox';
import {
  closed,
  freeObject,
  listOf,
  name,
  optional,
  resourceFields,
  times,
  uuid,
  version,
} from '../../http/schemas.ts';

const type = Type.String({ description: 'The connector that speaks to it.' });

export const destinationBody = closed(
  {
    name,
    type,
    settings: optional(freeObject('By the schema of the connector.')),
    enabled: optional(Type.Boolean({ description: 'Default true.' })),
  },
  {
    title: 'DestinationBody',
    examples: [
      { name: 'CRM', type: 'webhook', settings: { url: 'https://crm.example.com/events', batch_size: 10 } },
    ],
  },
);

export const destinationResource = Type.Object(
  {
    ...resourceFields,
    type,
    settings: freeObject('Secrets are masked, but for those just generated in the answer to a creation.'),
    enabled: Type.Boolean(),
    version,
    created_by: uuid,
    ...times,
  },
  { title: 'Destination' },
);

export const destinationList = listOf(destinationResource);
