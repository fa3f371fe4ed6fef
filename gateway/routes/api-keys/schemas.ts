import { KEY_GRANTS, type KeyGrant, WORKSPACE_ROLES } from '@tributary/core';
import { type TSchema, Type } from 'typebox';
import { closed, listOf, name, nullable, oneOf, optional, time } from '../../resources/schemas.ts';
import { keyFields, rawKey } from '../keys/key-resource.ts';

const grants = Type.Unsafe<readonly KeyGrant[]>({
  type: 'array',
  items: oneOf(KEY_GRANTS),
  uniqueItems: true,
  description:
    'What it does beyond the rest of its role `admin`: make API keys (`keys`), add, change and remove members (`members`). For admins of the organization to allow, by ID token. Default: neither.',
} satisfies TSchema);

export const apiKeyBody = closed(
  {
    name,
    role: optional(oneOf(WORKSPACE_ROLES, 'What the key may do in its workspace. Default `editor`.')),
    may_manage: optional(grants),
    expires_at: optional(
      Type.String({ description: 'ISO 8601, in the future: from then on it is refused. Default: never.' }),
    ),
  },
  { title: 'ApiKeyBody', examples: [{ name: 'nightly export', role: 'viewer' }] },
);

const fields = {
  ...keyFields,
  role: oneOf(WORKSPACE_ROLES),
  may_manage: listOf(oneOf(KEY_GRANTS), 'What it does beyond the rest of its role.'),
  expires_at: nullable(time),
  created_by_role: nullable(
    oneOf(WORKSPACE_ROLES, 'What the account that made it is in the workspace now; null: nothing any more.'),
  ),
};

export const apiKeyResource = Type.Object(fields, { title: 'ApiKey' });

export const createdApiKey = Type.Object({ ...fields, ...rawKey }, { title: 'CreatedApiKey' });

export const apiKeyList = listOf(apiKeyResource);
