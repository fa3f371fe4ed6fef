import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { GatewayDependencies } from '../../dependencies.ts';
import { errorAnswers, pathOf } from '../../resources/schemas.ts';
import { HOURS, lookBack, parseInteger } from '../../resources/values.ts';
import { presentVolume } from './presenter.ts';
import { volumeQuery, volumeRecords } from './schemas.ts';

/** `GET /workspaces/:workspaceId/event-volume`: accepted events by hour, type and name. */
export const volumeRoutes: FastifyPluginAsyncTypebox<GatewayDependencies> = async (
  app,
  { counters, clock },
) => {
  app.get(
    '/workspaces/:workspaceId/event-volume',
    {
      config: { operation: 'event-volume.read' },
      schema: {
        operationId: 'readEventVolume',
        summary: 'Count accepted events by hour, type and name',
        params: pathOf(),
        querystring: volumeQuery,
        response: { 200: volumeRecords, ...errorAnswers },
      },
    },
    async ({ query, workspace }, reply) => {
      const hours = parseInteger(query.hours, HOURS);
      const rows = await counters.read({
        workspaceId: workspace.id,
        ...lookBack(clock(), hours),
        ...(query.environment === undefined ? {} : { environment: query.environment }),
      });
      return reply.code(200).send(rows.map(presentVolume));
    },
  );
};
