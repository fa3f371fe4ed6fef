import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { GatewayDependencies } from '../../dependencies.ts';
import { linkNext, withCursor } from '../../resources/pagination.ts';
import { errorAnswers, organizationPathOf, pathOf } from '../../resources/schemas.ts';
import { presentAuditEntry } from './presenter.ts';
import { auditEntriesOf } from './query.ts';
import { auditList, auditQuery } from './schemas.ts';

/**
 * `GET /workspaces/:workspaceId/audit-log` and `GET /organizations/:organizationId/audit-log`: who changed what, when and
 * from where. What was changed a moment ago may not be in it yet: the log is written behind the catalog.
 */
export const auditRoutes: FastifyPluginAsyncTypebox<GatewayDependencies> = async (app, { history }) => {
  const answered = { querystring: auditQuery, response: { 200: auditList, ...errorAnswers } };

  app.get(
    '/workspaces/:workspaceId/audit-log',
    {
      config: { operation: 'audit-log.list' },
      schema: {
        operationId: 'listAuditLog',
        summary: 'List who changed what in a workspace',
        params: pathOf(),
        ...answered,
      },
    },
    (request, reply) => answer(request.workspace.id, request, reply),
  );

  app.get(
    '/organizations/:organizationId/audit-log',
    {
      config: { operation: 'organization-audit-log.list' },
      schema: {
        operationId: 'listOrganizationAuditLog',
        summary: 'List who changed what in an organization',
        params: organizationPathOf(),
        ...answered,
      },
    },
    (request, reply) => answer(request.organization.id, request, reply),
  );

  async function answer(
    scopeId: string,
    request: FastifyRequest & { readonly query: Parameters<typeof auditEntriesOf>[1] },
    reply: FastifyReply,
  ) {
    const query = auditEntriesOf(scopeId, request.query);
    const page = await withCursor(() => history.list(query));
    linkNext(request, reply, page.next);
    return reply.code(200).send(page.entries.map(presentAuditEntry));
  }
};
