import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { newId, type Workspace } from '@tributary/core';
import { accountOf } from '../../authentication/caller.ts';
import type { GatewayDependencies } from '../../dependencies.ts';
import { permissionDenied } from '../../errors/api-error.ts';
import { alertsIn } from '../../resources/alerts.ts';
import {
  checkVersion,
  isUnchanged,
  namesVersion,
  propose,
  tagVersion,
} from '../../resources/catalog-entities.ts';
import { linkNext, pageOf, pageRequest } from '../../resources/pagination.ts';
import { errorAnswers, pathOf, removedAs } from '../../resources/schemas.ts';
import { checkMove, planWorkspace } from './organization.ts';
import { presentWorkspace } from './presenter.ts';
import {
  workspaceBody,
  workspaceList,
  workspaceQuery,
  workspaceReplacement,
  workspaceResource,
} from './schemas.ts';

/** `/workspaces`: those the caller belongs to, a new one, one by id. */
export const workspaceRoutes: FastifyPluginAsyncTypebox<GatewayDependencies> = async (app, dependencies) => {
  const { catalog } = dependencies;

  app.get(
    '/workspaces',
    {
      config: { operation: 'workspaces.list' },
      schema: {
        operationId: 'listWorkspaces',
        summary: 'List the workspaces the caller belongs to',
        querystring: workspaceQuery,
        response: { 200: workspaceList, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const accountId = accountOf(request.caller);
      const wanted = request.query.status ?? 'active';
      const workspaces = catalog.state.workspaceListing(accountId, wanted);
      const page = pageOf(workspaces, pageRequest(request.query));
      linkNext(request, reply, page.next);
      return reply.code(200).send(page.items.map((workspace) => present(workspace, accountId)));
    },
  );

  app.post(
    '/workspaces',
    {
      config: { operation: 'workspaces.create' },
      schema: {
        operationId: 'createWorkspace',
        summary: 'Create a workspace',
        body: workspaceBody,
        response: { 201: workspaceResource, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const { name, organization_id, region } = request.body;
      const accountId = accountOf(request.caller);
      const plan = planWorkspace(
        {
          id: newId(),
          name,
          organizationId: organization_id ?? undefined,
          region: region ?? undefined,
          accountId,
          newOrganizationId: newId(),
        },
        catalog.state,
      );
      const { id } = plan.workspace;
      await propose(request, dependencies, {
        type: 'workspace.created',
        entity: id,
        expected_version: 0,
        data: plan,
      });
      const workspace = workspaceNow(id);
      tagVersion(reply, workspace);
      return reply.code(201).send(present(workspace, accountId));
    },
  );

  app.get(
    '/workspaces/:workspaceId',
    {
      config: { operation: 'workspaces.read' },
      schema: {
        operationId: 'readWorkspace',
        summary: 'Read a workspace',
        params: pathOf(),
        response: { 200: workspaceResource, ...errorAnswers },
      },
    },
    async ({ workspace, role }, reply) => {
      if (role === undefined) throw permissionDenied();
      tagVersion(reply, workspace);
      return reply.code(200).send(presentWorkspace(workspace, role));
    },
  );

  app.put(
    '/workspaces/:workspaceId',
    {
      config: { operation: 'workspaces.update' },
      schema: {
        operationId: 'replaceWorkspace',
        summary: 'Replace a workspace',
        params: pathOf(),
        body: workspaceReplacement,
        response: { 200: workspaceResource, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const { workspace: stored, role, body } = request;
      if (role === undefined) throw permissionDenied();
      checkVersion(request, stored);
      const alerts = alertsIn(body.alerts, catalog.state, stored.id);
      const told = alerts === null && stored.alerts === undefined ? {} : { alerts };
      const fields = { name: body.name, region: body.region, ...told };
      checkMove(request.caller, stored, fields.region, catalog.state);
      if (!(await isUnchanged(dependencies, stored, fields, () => catalog.state.workspace(stored.id))))
        await propose(request, dependencies, {
          type: 'workspace.updated',
          entity: stored.id,
          expected_version: stored.version,
          data: fields,
        });
      const workspace = workspaceNow(stored.id);
      tagVersion(reply, workspace);
      return reply.code(200).send(presentWorkspace(workspace, role));
    },
  );

  app.delete(
    '/workspaces/:workspaceId',
    {
      config: { operation: 'workspaces.archive' },
      schema: {
        operationId: 'archiveWorkspace',
        summary: 'Archive a workspace',
        params: pathOf(),
        response: { 200: removedAs('archived'), ...errorAnswers },
      },
    },
    async (request, reply) => {
      const { workspace } = request;
      if (workspace.status !== 'archived') {
        checkVersion(request, workspace);
        await propose(request, dependencies, {
          type: 'workspace.archived',
          entity: workspace.id,
          ...(namesVersion(request) ? { expected_version: workspace.version } : {}),
          data: {},
        });
      }
      return reply.code(200).send({ id: workspace.id, status: 'archived' });
    },
  );

  function workspaceNow(id: string): Workspace {
    const workspace = catalog.state.workspace(id);
    if (workspace === undefined) throw new Error(`workspace ${id} was applied and is not there`);
    return workspace;
  }

  function present(workspace: Workspace, accountId: string) {
    const role = catalog.state.workspaceRole(accountId, workspace.id);
    if (role === undefined) throw permissionDenied();
    return presentWorkspace(workspace, role);
  }
};
