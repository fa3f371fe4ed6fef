import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { GatewayDependencies } from '../../dependencies.ts';
import { notFound } from '../../errors/api-error.ts';
import { closed, errorAnswers, pathOf } from '../../resources/schemas.ts';
import { presentType } from './presenter.ts';
import { destinationType, destinationTypeList } from './schemas.ts';

const path = '/workspaces/:workspaceId/destination-types';

/** `/workspaces/:workspaceId/destination-types`: the kinds of place a destination may be, as a form needs them. */
export const destinationTypeRoutes: FastifyPluginAsyncTypebox<GatewayDependencies> = async (
  app,
  { connectors },
) => {
  app.get(
    path,
    {
      config: { operation: 'destination-types.list' },
      schema: {
        operationId: 'listDestinationTypes',
        summary: 'List the types that destinations may have',
        params: pathOf(),
        querystring: closed({}),
        response: { 200: destinationTypeList, ...errorAnswers },
      },
    },
    async (_request, reply) => reply.code(200).send([...connectors.descriptions.values()].map(presentType)),
  );

  app.get(
    `${path}/:type`,
    {
      config: { operation: 'destination-types.read' },
      schema: {
        operationId: 'readDestinationType',
        summary: 'Read a type of destinations',
        params: pathOf('type'),
        response: { 200: destinationType, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const description = connectors.descriptions.get(request.params.type);
      if (description === undefined) throw notFound();
      return reply.code(200).send(presentType(description));
    },
  );
};
