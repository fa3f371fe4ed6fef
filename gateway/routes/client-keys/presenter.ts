import type { CatalogView, ClientKey } from '@tributary/core';
import type { Static } from 'typebox';
import type { clientKeyResource } from './schemas.ts';

/** The hash stays inside. */
export function presentClientKey(
  key: ClientKey,
  state: Pick<CatalogView, 'organizationRole'>,
): Static<typeof clientKeyResource> {
  return {
    id: key.id,
    organization_id: key.organization_id,
    name: key.name,
    key_prefix: key.key_prefix,
    scopes: key.scopes,
    status: key.status,
    created_by: key.created_by,
    created_by_role: state.organizationRole(key.created_by, key.organization_id) ?? null,
    created_at: key.created_at,
    updated_at: key.updated_at,
  };
}
