import { CLIENT_KEY_SCOPES, type ClientKeyScope, ORGANIZATION_ROLES } from '@tributary/core';
import { type TSchema, Type } from 'typebox';
import { closed, listOf, name, nullable, oneOf, uuid } from '../../resources/schemas.ts';
import { keyFields, rawKey } from '../keys/key-resource.ts';

const scope = oneOf(CLIENT_KEY_SCOPES);

export const clientKeyBody = closed(
  {
    name,
    scopes: Type.Unsafe<readonly ClientKeyScope[]>({
      type: 'array',
      items: scope,
      minItems: 1,
      uniqueItems: true,
      description: 'What the key may do with profiles, at most.',
    } satisfies TSchema),
  },
  { title: 'ClientKeyBody', examples: [{ name: 'shop', scopes: ['profile.read'] }] },
);

const { id, key_prefix, status, created_by, created_at, updated_at } = keyFields;

const fields = {
  id,
  organization_id: uuid,
  name,
  key_prefix,
  scopes: listOf(scope),
  status,
  created_by,
  created_by_role: nullable(
    oneOf(
      ORGANIZATION_ROLES,
      'What the account that made it is in the organization now; null: nothing any more.',
    ),
  ),
  created_at,
  updated_at,
};

export const clientKeyResource = Type.Object(fields, { title: 'ClientKey' });

export const createdClientKey = Type.Object({ ...fields, ...rawKey }, { title: 'CreatedClientKey' });

export const clientKeyList = listOf(clientKeyResource);
