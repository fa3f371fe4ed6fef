import { isDeepStrictEqual } from 'node:util';
import {
  causesOf,
  type Fact,
  iso,
  MAX_VALUE_BYTES,
  type WorkspaceEntities,
  type WorkspaceEntityKind,
} from '@tributary/core';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { accountOf, authorOf } from '../authentication/caller.ts';
import type { GatewayDependencies } from '../dependencies.ts';
import { conflict, notFound, payloadTooLarge, versionMismatch } from '../errors/api-error.ts';

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
  const removed = { id: id.toLowerCase(), status: 'deleted' } as const;
  if (dependencies.catalog.state.wasDeleted(kind, request.workspace.id, removed.id)) return removed;
  const entity = entityOf(request, dependencies, kind, id);
  checkVersion(request, entity);
  await propose(request, dependencies, {
    type: `${kind}.deleted`,
    entity: entity.id,
    ...(namesVersion(request) ? { expected_version: entity.version } : {}),
    data: {},
  });
  return removed;
}

type WithoutOrigin<F> = F extends Fact
  ? Omit<F, 'v' | 'by' | 'from' | 'at'> & (F['v'] extends 1 ? { readonly v?: 1 } : Pick<F, 'v'>)
  : never;

/** A fact without what the request says about it: who, from where, when. Of version 1 unless it says otherwise. */
export type Proposal = WithoutOrigin<Fact>;

type ProposalDependencies = Pick<GatewayDependencies, 'catalog' | 'changeLimits' | 'clock'>;

/**
 * Makes a fact of a request part of the catalog. Resolves once this process's own fold applied it, so the caller
 * reads its own write. 409 with the reason when the fold refused it, and, with the quota's name, when there is no room for it; 429 when
 * there were too many changes of late; 412 when that was about a version the caller had named; 413 for
 * more than the log takes: a body that fits may grow when it is written down (`1e20` becomes a 1 and twenty zeros).
 */
export async function propose(
  request: FastifyRequest,
  { catalog, changeLimits, clock }: ProposalDependencies,
  proposal: Proposal,
): Promise<void> {
  const origin = {
    by: authorOf(request.caller),
    from: { address: request.clientAddress.text, request_id: request.id },
    at: iso(clock()),
  };
  const fact: Fact = proposal.v === 2 ? { ...proposal, ...origin } : { ...proposal, v: 1, ...origin };
  const bytes = Buffer.byteLength(JSON.stringify(fact));
  if (bytes > MAX_VALUE_BYTES)
    throw payloadTooLarge(
      '',
      `written down it has ${bytes} bytes, and ${MAX_VALUE_BYTES} at most can be kept`,
    );
  const change = {
    fact,
    bytes,
    account: accountOf(request.caller),
    scope: request.workspace?.id ?? request.organization?.id,
  };
  const verdict = await changeLimits.admit(
    change,
    () => catalog.state,
    () => catalog.propose(fact),
  );
  if (verdict.applied) return;
  if (verdict.conflict === 'version' && namesVersion(request)) throw versionMismatch();
  throw conflict(verdict.conflict, causesOf(catalog.state, fact, verdict.conflict));
}

interface Versioned {
  readonly version: number;
}

function tagOf({ version }: Versioned): string {
  return `"${version}"`;
}

/** What a tag says: a proxy that compresses answers makes it weak (`W/"3"`), or appends the coding (`"3-gzip"`). */
const TAG = /^(?:W\/)?"(?<version>\d+)(?:[-;+:](?:gzip|br|deflate|zstd|df))?"$/;

/** The `ETag` of a resource is its version. */
export function tagVersion<Resource extends Versioned>(reply: FastifyReply, resource: Resource): void {
  reply.header('etag', tagOf(resource));
}

/** True when the caller named the version that a change is for; `*` takes any. */
export function namesVersion(request: FastifyRequest): boolean {
  return request.headers['if-match'] !== undefined && !tagsOf(request).includes('*');
}

function tagsOf(request: FastifyRequest): readonly string[] {
  return (request.headers['if-match'] ?? '').split(',').map((tag) => tag.trim());
}

/**
 * 412 unless the `If-Match` of the request, if it has one, takes the version that is there. A weak tag does: a version
 * is of the resource and not of the bytes of an answer.
 */
export function checkVersion(request: FastifyRequest, stored: Versioned): void {
  if (!namesVersion(request)) return;
  const isTaken = (tag: string) => TAG.exec(tag)?.groups?.version === String(stored.version);
  if (!tagsOf(request).some(isTaken)) throw versionMismatch();
}
