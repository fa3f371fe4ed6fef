import { isDeepStrictEqual } from 'node:util';
import type { WorkspaceEntities, WorkspaceEntityKind } from '@tributary/core';
import type { FastifyRequest } from 'fastify';
import type { GatewayDependencies } from '../dependencies.ts';
import { notFound } from './errors.ts';
import { type ProposalDependencies, propose } from './propose.ts';
import { checkVersion, namesVersion } from './versions.ts';

/** The entity a path names; 404 for what is malformed, missing, deleted or another workspace's. */
export function entityOf<K extends WorkspaceEntityKind>(
  request: FastifyRequest,
  { catalog }: Pick<GatewayDependencies, 'catalog'>,
  kind: K,
  id: string,
): WorkspaceEntities[K] {
  const entity = catalog.state.entity(kind, request.workspace.id, id.toLowerCase());
  if (entity === undefined) throw notFound();
  return entity;
}

/** How long a change that may be none waits to hear of all others, ms. */
const CATCH_UP_MS = 5_000;

/**
 * True when a stored entity already is what a request wants it to be. Then it becomes no fact: each version of an
 * entity costs every process memory for good. Only true of the newest version there is: what another process was told
 * since this one last heard must not be taken for unchanged. `Unavailable` when that cannot be known.
 */
export async function isAlready<K extends WorkspaceEntityKind>(
  request: FastifyRequest,
  dependencies: ProposalDependencies,
  kind: K,
  stored: WorkspaceEntities[K],
  wanted: Partial<WorkspaceEntities[K]>,
): Promise<boolean> {
  return isUnchanged(dependencies, stored, wanted, () => entityOf(request, dependencies, kind, stored.id));
}

/** The same of anything a catalog holds: `current` finds it again. */
export async function isUnchanged<Entity extends object>(
  { catalog }: Pick<GatewayDependencies, 'catalog'>,
  stored: Entity,
  wanted: Partial<Entity>,
  current: () => Entity | undefined,
): Promise<boolean> {
  if (!isDeepStrictEqual({ ...stored, ...wanted }, { ...stored })) return false;
  await catalog.catchUp(CATCH_UP_MS);
  return current() === stored; // a change makes a new object
}

/** Revokes a key for good. Revoking a revoked one changes nothing. */
export async function revokeKey(
  request: FastifyRequest,
  dependencies: ProposalDependencies,
  kind: 'api_key' | 'write_key',
  id: string,
): Promise<{ id: string; status: 'revoked' }> {
  const key = entityOf(request, dependencies, kind, id);
  if (key.status !== 'revoked')
    await propose(request, dependencies, { type: `${kind}.revoked`, entity: key.id, data: {} });
  return { id: key.id, status: 'revoked' };
}

/** Deletes an entity. Deleting a deleted one changes nothing; 409 while something at work names it. */
export async function deleteEntity(
  request: FastifyRequest,
  dependencies: ProposalDependencies,
  kind: 'transformation' | 'destination' | 'rule' | 'source',
  id: string,
): Promise<{ id: string; status: 'deleted' }> {
  const gone = { id: id.toLowerCase(), status: 'deleted' } as const;
  if (dependencies.catalog.state.wasDeleted(kind, request.workspace.id, gone.id)) return gone;
  const entity = entityOf(request, dependencies, kind, id);
  checkVersion(request, entity);
  await propose(request, dependencies, {
    type: `${kind}.deleted`,
    entity: entity.id,
    ...(namesVersion(request) ? { expected_version: entity.version } : {}),
    data: {},
  });
  return gone;
}
