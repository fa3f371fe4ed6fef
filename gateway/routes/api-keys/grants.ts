import { type CatalogView, KEY_GRANTS, type KeyGrant, type WorkspaceRole } from '@tributary/core';
import type { FastifyRequest } from 'fastify';
import { administersOrganization } from '../../authentication/caller.ts';
import { invalidRequest, permissionDenied } from '../../errors/api-error.ts';

/**
 * What a new API key may manage. Only an admin of the organization allows it, by ID token (403), and only for a key with
 * the role that managing takes (400). Not even a key that may make keys hands it on.
 */
export function grantsOf(
  wanted: readonly KeyGrant[],
  role: WorkspaceRole,
  { caller, workspace }: Pick<FastifyRequest, 'caller' | 'workspace'>,
  state: Pick<CatalogView, 'organizationRole'>,
): readonly KeyGrant[] {
  if (wanted.length === 0) return [];
  if (!administersOrganization(caller, workspace.organization_id, state)) throw permissionDenied();
  if (role !== 'admin')
    throw invalidRequest({ path: '/may_manage', message: 'goes with the role admin alone' });
  return KEY_GRANTS.filter((grant) => wanted.includes(grant));
}
