import { WORKSPACE_ROLES } from '@tributary/core';
import { Type } from 'typebox';
import { keyFields, rawKey } from '../../http/keys.ts';
import { closed, listOf, name, nullable, oneOf, optional, time } from '../../http/schemas.ts';

export const apiKeyBody = closed(
  {
    name,
    role: optional(oneOf(WORKSPACE_ROLES, 'What the key may do in its workspace. Default `editor`.')),
    expires_at: optional(
      Type.String({ description: 'ISO 8601, in the future: from then on it is refused. Default: never.' }),
    ),
  },
  { title: 'ApiKeyBody', examples: [{ name: 'nightly export', role: 'viewer' }] },
);

const fields = { ...keyFields, role: oneOf(WORKSPACE_ROLES), expires_at: nullable(time) };

export const apiKeyResource = Type.Object(fields, { title: 'ApiKey' });

export const createdApiKey = Type.Object({ ...fields, ...rawKey }, { title: 'CreatedApiKey' });

export const apiKeyList = listOf(apiKeyResource);
