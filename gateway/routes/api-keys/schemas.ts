import { WORKSPACE_ROLES } from '@tributary/core';
import { Type } from 'typebox';
import { keyFields, rawKey } from '../../http/keys.ts';
import { closed, listOf, name, oneOf, optional } from '../../http/schemas.ts';

export const apiKeyBody = closed({
  name,
  role: optional(oneOf(WORKSPACE_ROLES, 'What the key may do in its workspace. Default `editor`.')),
});

const fields = { ...keyFields, role: oneOf(WORKSPACE_ROLES) };

export const apiKeyResource = Type.Object(fields);

export const createdApiKey = Type.Object({ ...fields, ...rawKey });

export const apiKeyList = listOf(apiKeyResource);
