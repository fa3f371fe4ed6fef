import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { GatewayDependencies } from '../../dependencies.ts';
import { linkNext, withCursor } from '../../http/lists.ts';
import { errorAnswers, pathOf } from '../../http/schemas.ts';
import { presentAuditEntry } from './presenter.ts';
import { auditEntriesOf } from './query.ts';
import { auditList, auditQuery } from './schemas.ts';

/**
 * `GET /workspaces/:workspaceId/audit-log`: who changed what, when and from where. What was changed a moment ago may
 * not be in it yet: the log is written behind the catalog.
 */
export const auditRoutes: FastifyPluginAsyncTypebox<GatewayDependencies> = async (app, { history }) => {
  app.get(
    '/workspaces/:workspaceId/audit-log',
    {
      config: { operation: 'audit-log.list' },
      schema: {
        params: pathOf(),
        querystring: auditQuery,
        response: { 200: auditList, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const query = auditEntriesOf(request.workspace.id, request.query);
      const page = await withCursor(() => history.list(query));
      linkNext(request, reply, page.next);
      return reply.code(200).send(page.entries.map(presentAuditEntry));
    },
  );
};
