import { isDeepStrictEqual } from 'node:util';
import {
  type ConflictCause,
  type ConflictReason,
  causesOf,
  type Fact,
  iso,
  MAX_VALUE_BYTES,
  type WorkspaceEntities,
  type WorkspaceEntityKind,
} from '@tributary/core';
import type { FastifyReply, FastifyRequest, onSendHookHandler } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { accountOf, authorOf } from '../authentication/caller.ts';
import type { GatewayDependencies } from '../dependencies.ts';
import { conflict, notFound, payloadTooLarge, versionMismatch } from '../errors/api-error.ts';

/** The entity that a path names. 404 for a malformed id, and for one that is missing, deleted or of another workspace. */
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

/** How long an apparently unchanged entity waits for the catalog to catch up, ms. */
const CATCH_UP_MS = 5_000;

/**
 * Whether a stored entity already has the wanted fields. Then no fact is appended: each version costs memory in every
 * process for good. The catalog catches up first, so that a newer version from another process is not taken for
 * unchanged; `Unavailable` when it cannot.
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

/** As above, for any object of the catalog; `current` reads it again. */
export async function isUnchanged<Entity extends object>(
  { catalog }: Pick<GatewayDependencies, 'catalog'>,
  stored: Entity,
  wanted: Partial<Entity>,
  current: () => Entity | undefined,
): Promise<boolean> {
  if (!isDeepStrictEqual({ ...stored, ...wanted }, { ...stored })) return false;
  await catalog.catchUp(CATCH_UP_MS);
  return current() === stored; // every change creates a new object
}

/** Revokes a key permanently. Idempotent. */
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

/** Deletes an entity. Idempotent; 409 while an active entity refers to it. */
export async function deleteEntity(
  request: FastifyRequest,
  dependencies: ProposalDependencies,
  kind: 'transformation' | 'destination' | 'rule' | 'source' | 'alert',
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

/** A fact without its origin, which comes from the request: author, address, time. Version 1 unless stated. */
export type Proposal = WithoutOrigin<Fact>;

type ProposalDependencies = Pick<GatewayDependencies, 'catalog' | 'changeLimits' | 'clock'>;

/** The author of a fact, and the scope that the change counts for. */
export interface Proposer {
  readonly by: Fact['by'];
  readonly from: Fact['from'];
  /** The account that the change counts for. */
  readonly account: string;
  /** The workspace, else the organization, that the change belongs to. */
  readonly scope: string | undefined;
}

/**
 * Appends a fact to the catalog. Resolves once this process's fold has applied it, so callers read their own writes.
 *
 * Errors: 409 with the reason when the fold refuses it, or with the quota when that is full; 412 when the version that the
 * caller named is not current; 429 for too many changes; 413 when the fact is larger than a log record, which a body
 * within its limit can become (`1e20` is written as a 1 and twenty zeros). `refusalOf`: the 409, where the caller knows more.
 */
export async function propose(
  request: FastifyRequest,
  dependencies: ProposalDependencies,
  proposal: Proposal,
  refusalOf = ({ reason, causes }: Refused) => conflict(reason, causes),
): Promise<void> {
  const proposer = {
    by: authorOf(request.caller),
    from: { address: request.clientAddress.text, request_id: request.id },
    account: accountOf(request.caller),
    scope: request.workspace?.id ?? request.organization?.id,
  };
  const refused = await proposeAs(proposer, dependencies, proposal);
  if (refused === undefined) return;
  if (refused.reason === 'version' && namesVersion(request)) throw versionMismatch();
  throw refusalOf(refused);
}

/** Why the fold refused a fact. */
export interface Refused {
  readonly reason: ConflictReason;
  readonly causes: readonly ConflictCause[];
}

/** As `propose`, for callers without a request. Resolves to the reason if the fold refuses the fact. */
export async function proposeAs(
  { by, from, account, scope }: Proposer,
  { catalog, changeLimits, clock }: ProposalDependencies,
  proposal: Proposal,
): Promise<Refused | undefined> {
  const origin = { by, from, at: iso(clock()) };
  const fact: Fact = proposal.v === 2 ? { ...proposal, ...origin } : { ...proposal, v: 1, ...origin };
  const bytes = Buffer.byteLength(JSON.stringify(fact));
  if (bytes > MAX_VALUE_BYTES)
    throw payloadTooLarge(
      '',
      `has ${bytes} bytes in its stored form, which may have at most ${MAX_VALUE_BYTES}`,
    );
  const verdict = await changeLimits.admit(
    { fact, bytes, account, scope },
    () => catalog.state,
    () => catalog.propose(fact),
  );
  if (verdict.applied) return undefined;
  const { conflict: reason } = verdict;
  return { reason, causes: causesOf(catalog.state, fact, reason) };
}

interface Versioned {
  readonly version: number;
}

function tagOf({ version }: Versioned): string {
  return `"${version}"`;
}

/** An `ETag`. A proxy that compresses responses makes it weak (`W/"3"`) or appends the coding (`"3-gzip"`). */
const TAG = /^(?:W\/)?"(?<version>\d+)(?:[-;+:](?:gzip|br|deflate|zstd|df))?"$/;

/** The `ETag` of a resource is its version. */
export function tagVersion<Resource extends Versioned>(reply: FastifyReply, resource: Resource): void {
  reply.header('etag', tagOf(resource));
}

/** Whether `If-Match` names a version; `*` accepts any. */
export function namesVersion(request: FastifyRequest): boolean {
  return request.headers['if-match'] !== undefined && !tagsOf(request).includes('*');
}

function tagsOf(request: FastifyRequest): readonly string[] {
  return (request.headers['if-match'] ?? '').split(',').map((tag) => tag.trim());
}

/** Answers 304 to a `GET` with an `If-None-Match` for the version that it would be answered. Other routes have no hook for it. */
export const conditionalReadsPlugin = fastifyPlugin(async (app) => {
  app.addHook('onRoute', (route) => {
    if ([route.method].flat().some((method) => method === 'GET' || method === 'HEAD'))
      route.onSend = [...[route.onSend ?? []].flat(), answerNotModified];
  });
});

const answerNotModified: onSendHookHandler = (request, reply, payload, done) => {
  const known = request.headers['if-none-match'];
  const version =
    known === undefined ? undefined : TAG.exec(String(reply.getHeader('etag')))?.groups?.version;
  const isKnown = (tag: string) => tag.trim() === '*' || TAG.exec(tag.trim())?.groups?.version === version;
  if (version === undefined || !known?.split(',').some(isKnown)) return done(null, payload);
  reply.code(304).removeHeader('content-type').removeHeader('content-length');
  done(null, null);
};

/**
 * 412 unless `If-Match`, if the request has one, names the current version. Weak tags are accepted: the version is that of
 * the resource, not of the bytes of a response.
 */
export function checkVersion(request: FastifyRequest, stored: Versioned): void {
  if (!namesVersion(request)) return;
  const isTaken = (tag: string) => TAG.exec(tag)?.groups?.version === String(stored.version);
  if (!tagsOf(request).some(isTaken)) throw versionMismatch();
}
