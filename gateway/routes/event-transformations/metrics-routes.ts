import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { GatewayDependencies } from '../../dependencies.ts';
import { entityOf } from '../../resources/catalog-entities.ts';
import { errorAnswers, pathOf } from '../../resources/schemas.ts';
import { HOURS, lookBack, parseInteger } from '../../resources/values.ts';
import { presentFigures } from './presenter.ts';
import { metricsQuery, transformationMetrics } from './schemas.ts';

/** `GET .../event-transformations/:transformationId/metrics`: what its runs came to, in all processes together. */
export const transformationMetricsRoutes: FastifyPluginAsyncTypebox<GatewayDependencies> = async (
  app,
  dependencies,
) => {
  const { counters, clock } = dependencies;
  app.get(
    '/workspaces/:workspaceId/event-transformations/:transformationId/metrics',
    {
      config: { operation: 'event-transformations.metrics' },
      schema: {
        operationId: 'readTransformationMetrics',
        summary: 'Read what the runs of a transformation came to',
        params: pathOf('transformationId'),
        querystring: metricsQuery,
        response: { 200: transformationMetrics, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const { id } = entityOf(request, dependencies, 'transformation', request.params.transformationId);
      const hours = parseInteger(request.query.hours, HOURS);
      const counts = await counters.runs({
        workspaceId: request.workspace.id,
        transformationId: id,
        ...lookBack(clock(), hours),
      });
      return reply.code(200).send(presentFigures(id, hours, counts));
    },
  );
};
