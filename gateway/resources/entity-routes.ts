import { type FactData, newId, type WorkspaceEntities } from '@tributary/core';
import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify';
import type { Static, TSchema } from 'typebox';
import { accountOf } from '../authentication/caller.ts';
import type { GatewayDependencies } from '../dependencies.ts';
import {
  checkVersion,
  entityOf,
  inPath,
  type Proposal,
  propose,
  removalOf,
  tagged,
} from './catalog-entities.ts';
import type { CatalogList } from './lists.ts';
import { listOf, operation, removedAs } from './schemas.ts';

type Kind = 'source' | 'transformation' | 'destination' | 'rule' | 'alert';

/** A kind of entity of a workspace that callers list, create, read, replace (and so patch) and delete. */
interface EntityResource<K extends Kind, Body extends TSchema, Made> {
  readonly kind: K;
  /** The last segment of the list's path, with which the operations of the permission table begin. */
  readonly collection:
    | 'sources'
    | 'event-transformations'
    | 'destinations'
    | 'event-forwarding-rules'
    | 'alerts';
  /** With its article, as summaries name it. */
  readonly noun: string;
  readonly body: Body;
  /** Bytes. Default: that of all bodies. */
  readonly bodyLimit?: number;
  readonly resource: TSchema;
  readonly list: {
    readonly querystring: TSchema;
    readonly read: CatalogList<WorkspaceEntities[K], Record<never, never>>['read'];
  };
  /** A filter of the list that depends on more than the entities. */
  select?(request: FastifyRequest): Promise<((entity: WorkspaceEntities[K]) => boolean) | undefined>;
  /** The fields of the entity of a body, and what only the response to the creation shows. */
  create(
    request: FastifyRequest,
    body: Static<Body>,
    id: string,
  ): NewEntity<K, Made> | Promise<NewEntity<K, Made>>;
  /** Proposes the entity's replacement. `If-Match` is checked before. */
  replace(request: FastifyRequest, body: Static<Body>, stored: WorkspaceEntities[K]): Promise<void>;
  present(entity: WorkspaceEntities[K], made?: Made): object;
  /** After the deletion. */
  deleted?(entity: WorkspaceEntities[K]): Promise<void>;
}

interface NewEntity<K extends Kind, Made> {
  readonly fields: Omit<FactData[`${K}.created`], 'id' | 'workspace_id' | 'created_by'>;
  readonly made?: Made;
}

/** The routes of such a kind, below `/workspaces/:workspaceId`. */
export function entityRoutes<K extends Kind, Body extends TSchema, Made>(
  dependencies: GatewayDependencies,
  of: EntityResource<K, Body, Made>,
): FastifyPluginAsync {
  const { kind, collection, noun, resource, body, list } = of;
  const { catalog } = dependencies;
  const path = `/workspaces/:workspaceId/${collection}` as const;
  const entityPath = `${path}/:${kind}Id` as const;
  const plural = `${noun.replace(/^an? /, '')}s`;
  const title = kind.slice(0, 1).toUpperCase() + kind.slice(1);
  const limit = of.bodyLimit === undefined ? {} : { bodyLimit: of.bodyLimit };
  const named = (request: FastifyRequest) => entityOf(request, dependencies, kind);
  const send = (reply: FastifyReply, status: number, entity: WorkspaceEntities[K], made?: Made) => {
    return reply.code(status).send(of.present(tagged(reply, entity), made));
  };

  return async (app) => {
    app.get(
      path,
      operation(`${collection}.list`, `list${title}s`, `List ${plural}`, {
        querystring: list.querystring,
        response: { 200: listOf(resource) },
      }),
      async (request, reply) => {
        const isSelected = await of.select?.(request);
        const found = list.read(
          request,
          reply,
          catalog.state.listing(kind, request.workspace.id),
          isSelected,
        );
        return found.map((entity) => of.present(entity));
      },
    );

    app.post(
      path,
      operation(
        `${collection}.create`,
        `create${title}`,
        `Create ${noun}`,
        { body, response: { 201: resource } },
        limit,
      ),
      async (request, reply) => {
        const id = newId();
        const { fields, made } = await of.create(request, request.body as Static<Body>, id);
        const created_by = accountOf(request.caller);
        const data: object = { id, workspace_id: request.workspace.id, ...fields, created_by };
        const type = `${kind}.created` as const;
        await propose(request, dependencies, { type, entity: id, expected_version: 0, data } as Proposal);
        return send(reply, 201, entityOf(request, dependencies, kind, id), made);
      },
    );

    app.get(
      entityPath,
      operation(`${collection}.read`, `read${title}`, `Read ${noun}`, {
        response: { 200: resource },
      }),
      async (request, reply) => send(reply, 200, named(request)),
    );

    app.put(
      entityPath,
      operation(
        `${collection}.update`,
        `replace${title}`,
        `Replace ${noun}`,
        { body, response: { 200: resource } },
        { ...limit, patched: (request) => of.present(named(request)) },
      ),
      async (request, reply) => {
        const stored = named(request);
        checkVersion(request, stored);
        await of.replace(request, request.body as Static<Body>, stored);
        return send(reply, 200, named(request));
      },
    );

    app.delete(
      entityPath,
      operation(`${collection}.delete`, `delete${title}`, `Delete ${noun}`, {
        response: { 200: removedAs('deleted') },
      }),
      async (request) => deleteEntity(request, dependencies, kind, of.deleted),
    );
  };
}

/** Deletes an entity. Idempotent; 409 while an active entity refers to it. */
async function deleteEntity<K extends Kind>(
  request: FastifyRequest,
  dependencies: GatewayDependencies,
  kind: K,
  deleted?: (entity: WorkspaceEntities[K]) => Promise<void>,
): Promise<{ id: string; status: 'deleted' }> {
  const id = inPath(request, `${kind}Id`).toLowerCase();
  const removed = { id, status: 'deleted' } as const;
  if (dependencies.catalog.state.wasDeleted(kind, request.workspace.id, id)) return removed;
  const entity = entityOf(request, dependencies, kind);
  const proposal = { type: `${kind}.deleted`, ...removalOf(request, entity) };
  await propose(request, dependencies, proposal as Proposal);
  await deleted?.(entity);
  return removed;
}
