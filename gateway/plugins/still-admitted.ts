import { includesRole, type Operation, permissionOf } from '@tributary/core';
import type { GatewayDependencies } from '../dependencies.ts';
import type { Caller } from '../http/caller.ts';
import { roleIn } from './access.ts';
import { usableKey } from './authenticate.ts';

/** Who was let in to do what, in which workspace. */
export interface Admitted {
  readonly caller: Caller;
  readonly operation: Operation;
  readonly workspaceId: string;
}

export type Refusal = 'unavailable' | 'not authenticated' | 'permission denied';

/**
 * Why someone who was let in would not be let in any more; undefined while they would. For what lasts longer than a
 * request, and has to end when the credential expires or is revoked, the member is removed or the workspace archived,
 * and when the catalog is too old to tell.
 */
export function refusalNow(
  { caller, operation, workspaceId }: Admitted,
  { catalog, clock, trustCatalogForMs = Infinity }: AdmittanceDependencies,
): Refusal | undefined {
  if (catalog.age > trustCatalogForMs) return 'unavailable';
  if (!isGood(caller, { catalog, clock })) return 'not authenticated';
  const { credentials, role: needed } = permissionOf(operation);
  const role = roleIn(caller, workspaceId, catalog.state);
  const isActive = catalog.state.workspace(workspaceId)?.status === 'active';
  if (!isActive || !credentials.includes(caller.kind) || role === 'foreign') return 'permission denied';
  const suffices = needed === undefined || (role !== undefined && includesRole(role, needed));
  return suffices ? undefined : 'permission denied';
}

type AdmittanceDependencies = Pick<GatewayDependencies, 'catalog' | 'clock' | 'trustCatalogForMs'>;

function isGood(caller: Caller, { catalog, clock }: Pick<GatewayDependencies, 'catalog' | 'clock'>): boolean {
  if (caller.kind === 'id_token') return clock() < caller.expiresAt;
  return usableKey(catalog.state, caller.key.hash, clock()) !== undefined;
}
