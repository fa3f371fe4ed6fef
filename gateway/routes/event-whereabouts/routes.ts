import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { ENVIRONMENTS } from '@tributary/core';
import type { GatewayDependencies } from '../../dependencies.ts';
import { ApiError } from '../../errors/api-error.ts';
import { Turns, whenGone } from '../../limits/fair-semaphore.ts';
import { errorAnswers, pathOf } from '../../resources/schemas.ts';
import { parseTime } from '../../resources/values.ts';
import { Look } from './look.ts';
import { presentWhereabouts } from './presenter.ts';
import { whereaboutsQuery, whereaboutsResource } from './schemas.ts';
import { wayOf } from './way.ts';

/** How long one look reads, ms. */
const BUDGET_MS = 1_500;
/** Looks of a process at a time, as the log answers producers too; and who wait for one, of a workspace and in all. */
const TURNS = { atATime: 2, waiting: 20, waitingEach: 4, retryAfterSeconds: 2 };

/** `GET /workspaces/:workspaceId/events/:messageId`: where an event is. */
export const whereaboutsRoutes: FastifyPluginAsyncTypebox<GatewayDependencies> = async (
  app,
  dependencies,
) => {
  const turns = new Turns(TURNS);

  app.get(
    '/workspaces/:workspaceId/events/:messageId',
    {
      config: { operation: 'events.read' },
      schema: {
        operationId: 'findEvent',
        summary: 'Find where an event is',
        params: pathOf('messageId'),
        querystring: whereaboutsQuery,
        response: { 200: whereaboutsResource, ...errorAnswers },
      },
    },
    async ({ workspace, params, query }, reply) => {
      const around = parseTime('around', query.around);
      const wanted = {
        workspaceId: workspace.id,
        messageId: params.messageId,
        environments: query.environment === undefined ? ENVIRONMENTS : [query.environment],
        ...(around === undefined ? {} : { around }),
        ...(query.subject === undefined ? {} : { subject: query.subject }),
      };
      return turns.take(workspace.id, whenGone(reply), async () => {
        const look = new Look(dependencies.log, BUDGET_MS, () => performance.now());
        const found = await wayOf(look, dependencies, wanted);
        if (found === undefined) throw new ApiError(404, 'not found', { fields: { looked: look.looked() } });
        return reply.code(200).send(presentWhereabouts(found));
      });
    },
  );
};
