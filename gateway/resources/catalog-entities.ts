import { isDeepStrictEqual } from 'node:util';
import {
  type CatalogView,
  type ConflictCause,
  type ConflictReason,
  causesOf,
  type Fact,
  type FactData,
  isObject,
  iso,
  MAX_VALUE_BYTES,
  type WorkspaceEntities,
  type WorkspaceEntityKind,
} from '@tributary/core';
import type {
  FastifyInstance,
  FastifyReply,
  FastifyRequest,
  FastifySchema,
  onSendHookHandler,
} from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { accountOf, authorOf } from '../authentication/caller.ts';
import type { GatewayDependencies } from '../dependencies.ts';
import {
  ApiError,
  conflict,
  invalidRequest,
  notFound,
  payloadTooLarge,
  versionMismatch,
} from '../errors/api-error.ts';
import { describeValidation } from '../errors/error-handler.ts';
import { oneAtATime } from '../limits/turns.ts';
import { MERGE_PATCH_TYPE } from '../request-body/request-body.ts';
import { documentedAs } from './schemas.ts';

/** A parameter of the path. Any text is accepted: a malformed id is answered with 404. */
export function inPath({ params }: Pick<FastifyRequest, 'params'>, name: string): string {
  return (params as Readonly<Record<string, string>>)[name] ?? '';
}

/**
 * The entity that the path names as `<kind>Id`. 404 for a malformed id, and for one that is missing, deleted or of another
 * workspace.
 */
export function entityOf<K extends WorkspaceEntityKind>(
  request: FastifyRequest,
  { catalog }: Pick<GatewayDependencies, 'catalog'>,
  kind: K,
  id = inPath(request, `${kind}Id`),
): WorkspaceEntities[K] {
  const entity = catalog.state.entity(kind, request.workspace.id, id.toLowerCase());
  if (entity === undefined) throw notFound();
  return entity;
}

/** The entity that a body names, if it names one. 400 for one that its workspace does not have. */
export function entityNamed<K extends WorkspaceEntityKind>(
  state: Pick<CatalogView, 'entity'>,
  kind: K,
  workspaceId: string,
  id: string | null | undefined,
  path = `/${kind}_id`,
): WorkspaceEntities[K] | undefined {
  if (id == null) return undefined;
  const entity = state.entity(kind, workspaceId, id.toLowerCase());
  if (entity === undefined) throw invalidRequest({ path, message: `is not a ${kind} of this workspace` });
  return entity;
}

/** How long an apparently unchanged entity waits for the catalog to catch up, ms. */
const CATCH_UP_MS = 5_000;

/**
 * Whether an object of the catalog already has the wanted fields; `current` reads it again. Then no fact is appended: each
 * version costs memory in every process for good. The catalog catches up first, so that a newer version from another process
 * is not taken for unchanged; `Unavailable` when it cannot.
 */
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

/** An entity after a fact about it was applied. */
export function applied<Entity>(entity: Entity | undefined): Entity {
  if (entity === undefined) throw new Error('an entity was applied and is not there');
  return entity;
}

type WithoutOrigin<F> = F extends Fact
  ? Omit<F, 'v' | 'by' | 'from' | 'at'> & (F['v'] extends 1 ? { readonly v?: 1 } : Pick<F, 'v'>)
  : never;

/** A fact without its origin, which comes from the request: author, address, time. Version 1 unless stated. */
export type Proposal = WithoutOrigin<Fact>;

export type ProposalDependencies = Pick<GatewayDependencies, 'catalog' | 'changeLimits' | 'clock'>;

/** The author of a fact, and the scope that the change counts for. */
interface Proposer {
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

/** Replaces fields of an entity, unless it has them already. Errors as of `propose`. */
export async function update<K extends 'source' | 'transformation' | 'rule' | 'alert'>(
  request: FastifyRequest,
  dependencies: ProposalDependencies,
  kind: K,
  stored: WorkspaceEntities[K],
  data: FactData[`${K}.updated`],
  refusalOf?: Parameters<typeof propose>[3],
): Promise<void> {
  const wanted = data as Partial<WorkspaceEntities[K]>;
  const current = () => entityOf(request, dependencies, kind, stored.id);
  if (await isUnchanged(dependencies, stored, wanted, current)) return;
  const { id: entity, version: expected_version } = stored;
  const proposal = { type: `${kind}.updated`, entity, expected_version, data } as Proposal;
  await propose(request, dependencies, proposal, refusalOf);
}

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

/** An `ETag`. A proxy that compresses responses makes it weak (`W/"3"`) or appends the coding (`"3-gzip"`). */
const TAG = /^(?:W\/)?"(?<version>\d+)(?:[-;+:](?:gzip|br|deflate|zstd|df))?"$/;

/** The resource. Its version becomes the `ETag` of the response. */
export function tagged<Resource extends Versioned>(reply: FastifyReply, resource: Resource): Resource {
  reply.header('etag', `"${resource.version}"`);
  return resource;
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

/** The part of a fact that removes an entity: with its version where `If-Match` names one. 412 as of `checkVersion`. */
export function removalOf(request: FastifyRequest, stored: Versioned & { readonly id: string }) {
  checkVersion(request, stored);
  const expected = namesVersion(request) ? { expected_version: stored.version } : {};
  return { entity: stored.id, ...expected, data: {} };
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /**
     * For a `PUT`: reads the present resource. The route then has a `PATCH` as well, whose body states only what changes: it is
     * merged into the resource by RFC 7396 and handled as a `PUT`, by the same checks.
     */
    readonly patched?: (request: FastifyRequest) => object;
  }
  interface FastifyRequest {
    /** The body of a `PATCH`, which is merged into the resource. */
    change: unknown;
  }
}

const MAX_SHOWN = 100;

/** The schema of the body of a `PUT`. */
interface PutBody {
  readonly title?: string;
  readonly examples?: readonly object[];
}

type Properties = Readonly<Record<string, unknown>>;

/** Gateways that change one resource at the same time: how often a change that lost is repeated, at most. */
const REPETITIONS = 20;

/**
 * Adds a `PATCH` beside each `PUT` that names its resource, and accepts read-only fields in the bodies of both as long as they
 * have their present values: what was read can be changed and sent back.
 *
 * Changes of one resource take turns here. One that another gateway was faster than is repeated on the new version, so that
 * without `If-Match` the last change wins; a `PATCH` is merged again, so none is lost.
 */
export const patchPlugin = fastifyPlugin(async (app: FastifyInstance) => {
  const inTurn = oneAtATime();

  app.decorateRequest('change', undefined);
  app.addHook('onRoute', function (route) {
    const { patched } = route.config ?? {};
    if (route.method !== 'PUT' || patched === undefined) return;
    const { handler } = route;
    const body = route.schema?.body as PutBody & { readonly properties: Properties };
    const names = Object.keys(body.properties);
    const change = async (request: FastifyRequest, reply: FastifyReply, begin: () => void) => {
      for (let repetition = 0; ; repetition++) {
        begin();
        try {
          return await handler.call(this, request, reply);
        } catch (error) {
          if (namesVersion(request) || !isLostRace(error) || repetition === REPETITIONS) throw error;
        }
      }
    };
    const pathOf = ({ url }: FastifyRequest) => url.split('?', 1)[0] ?? '';

    route.preValidation = (request, _reply, done) =>
      settle(done, () => {
        request.body = withoutReadOnly(request.body, names, patched(request));
      });
    route.handler = (request, reply) => inTurn(pathOf(request), () => change(request, reply, () => {}));

    const merge = (request: FastifyRequest) => {
      const current: Properties = { ...patched(request) };
      const stored = Object.fromEntries(names.map((name) => [name, current[name]]));
      request.body = merged(stored, request.change);
    };
    this.route({
      method: 'PATCH',
      url: route.routePath,
      config: { ...route.config },
      ...(route.bodyLimit === undefined ? {} : { bodyLimit: route.bodyLimit }),
      schema: patchSchema(route.schema ?? {}, body),
      preValidation: (request, _reply, done) =>
        settle(done, () => {
          request.change = withoutReadOnly(request.body, names, patched(request));
          merge(request);
        }),
      handler: (request, reply) =>
        inTurn(pathOf(request), () =>
          // The handler reads the resource in the same turn of the event loop.
          change(request, reply, () => {
            merge(request);
            const isValid = request.getValidationFunction('body');
            if (isValid?.(request.body) === false)
              throw invalidRequest(...describeValidation(isValid.errors ?? [], 'body'));
          }),
        ),
    });
  });
});

/** An error is that of the resource, which may not exist. */
function settle(done: (error?: Error) => void, work: () => void): void {
  try {
    work();
    done();
  } catch (error) {
    done(error as Error);
  }
}

function isLostRace(error: unknown): boolean {
  return error instanceof ApiError && error.status === 409 && error.fields.reason === 'version';
}

/** 400 for a read-only field that is not as it is now. */
function withoutReadOnly(body: unknown, names: readonly string[], resource: object): unknown {
  if (!isObject(body)) return body;
  const present: Properties = JSON.parse(JSON.stringify(resource));
  const isReadOnly = (name: string) => !names.includes(name) && Object.hasOwn(present, name);
  const changed = Object.keys(body).filter(
    (name) => isReadOnly(name) && !isDeepStrictEqual(body[name], present[name]),
  );
  if (changed.length > 0)
    throw invalidRequest(
      ...changed.map((name) => ({
        path: `/${name}`,
        message: `is read-only, and is ${JSON.stringify(present[name]).slice(0, MAX_SHOWN)}`,
      })),
    );
  return Object.fromEntries(Object.entries(body).filter(([name]) => !isReadOnly(name)));
}

/** The schema of the `PUT` validates the merged body; described is a body of which nothing is required. */
function patchSchema(schema: FastifySchema, body: PutBody): FastifySchema {
  const { operationId = '', summary = '' } = schema;
  const title = `${(body.title ?? operationId.replace('replace', '')).replace(/(Body|Replacement)$/, '')}Patch`;
  return {
    ...schema,
    consumes: ['application/json', MERGE_PATCH_TYPE],
    body: { ...body, ...documentedAs({ title, required: [], examples: [oneFieldOf(body)] }) },
    operationId: operationId.replace('replace', 'patch'),
    summary: summary.replace('Replace', 'Change fields of'),
  };
}

/** An example of a change: the first field of the example of a `PUT`. */
function oneFieldOf({ examples }: PutBody): object {
  return Object.fromEntries(Object.entries(examples?.[0] ?? {}).slice(0, 1));
}

/** RFC 7396: `null` removes a member, objects are merged, all else replaces. A body that is no object is left to the schema. */
export function merged(stored: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return patch;
  const result: Record<string, unknown> = isObject(stored) ? { ...stored } : {};
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete result[name];
    else defineMember(result, name, merged(Object.hasOwn(result, name) ? result[name] : undefined, value));
  }
  return result;
}

/** Also for `__proto__`, which an assignment would not make a member. */
function defineMember(object: object, name: string, value: unknown): void {
  Object.defineProperty(object, name, { value, enumerable: true, configurable: true, writable: true });
}
