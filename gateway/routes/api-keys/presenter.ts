import type { ApiKey, CatalogView } from '@tributary/core';
import type { Static } from 'typebox';
import { lastUse } from '../keys/key-resource.ts';
import type { apiKeyResource } from './schemas.ts';

/**
 * `uses` holds the last use of keys, epoch ms. The hash stays inside. The status is the spec's, `active` until it is
 * revoked: that a key has expired is read from `expires_at`.
 */
export function presentApiKey(
  key: ApiKey,
  uses: ReadonlyMap<string, number>,
  state: Pick<CatalogView, 'workspaceRole'>,
): Static<typeof apiKeyResource> {
  return {
    id: key.id,
    workspace_id: key.workspace_id,
    name: key.name,
    key_prefix: key.key_prefix,
    role: key.role,
    may_manage: key.may_manage ?? [],
    status: key.status,
    expires_at: key.expires_at,
    last_used_at: lastUse(uses, key.id),
    created_by: key.created_by,
    created_by_role: state.workspaceRole(key.created_by, key.workspace_id) ?? null,
    created_at: key.created_at,
    updated_at: key.updated_at,
  };
}
