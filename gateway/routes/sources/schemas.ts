import { Type } from 'typebox';
import {
  closed,
  description,
  listOf,
  name,
  nullable,
  oneOf,
  optional,
  resourceFields,
  times,
  uuid,
  version,
} from '../../resources/schemas.ts';

const type = Type.String({
  minLength: 1,
  maxLength: 50,
  pattern: '^[a-z0-9][a-z0-9_-]*$',
  description: 'What kind of thing it is, by a word of your own: `web`, `ios`, `billing-server`.',
});

export const sourceBody = closed(
  { name, type, description: optional(description) },
  { title: 'SourceBody', examples: [{ name: 'shop', type: 'web' }] },
);

export const sourceResource = Type.Object(
  {
    ...resourceFields,
    type,
    description: nullable(description),
    status: oneOf(['active']),
    version,
    created_by: uuid,
    ...times,
  },
  { title: 'Source' },
);

export const sourceList = listOf(sourceResource);
