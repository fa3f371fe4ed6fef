import type { ClientKey } from '@tributary/core';
import type { Static } from 'typebox';
import type { clientKeyResource } from './schemas.ts';

/** The hash stays inside. */
export function presentClientKey(key: ClientKey): Static<typeof clientKeyResource> {
  return {
    id: key.id,
    organization_id: key.organization_id,
    name: key.name,
    key_prefix: key.key_prefix,
    scopes: key.scopes,
    status: key.status,
    created_by: key.created_by,
    created_at: key.created_at,
    updated_at: key.updated_at,
  };
}
