import type { Readable } from 'node:stream';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { ENVIRONMENTS } from '@tributary/core';
import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import type { GatewayDependencies } from '../dependencies.ts';
import { LiveStreams } from '../live-streams/live-streams.ts';
import { documentedAs } from '../resources/documented.ts';
import { closed, errorAnswers, oneOf, pathOf } from '../resources/schemas.ts';

const liveQuery = closed({
  environment: Type.Optional(oneOf(ENVIRONMENTS, 'Default: both.')),
});

const liveBody = Type.Unsafe<Readable>({
  type: 'string',
  ...documentedAs({
    type: 'object',
    properties: {
      event: { enum: ['event', 'missed', 'interrupted', 'resumed', 'end'] },
      id: { type: 'string', description: 'For `Last-Event-ID`.' },
      data: { type: 'string', contentMediaType: 'application/json' },
    },
  }),
  description:
    'Server-Sent Events, of which this is one. `event`: one event of the workspace with its `outcome` and `violations`; ' +
    '`missed`: the number of events that were not sent because they are no longer kept (null: unknown); `interrupted` and ' +
    '`resumed`: events in between are not sent; `end`: the reason why the stream ends.',
});

const operation = 'events.live';

/**
 * `GET /workspaces/:workspaceId/events/live`: the accepted and rejected events of a workspace as Server-Sent Events. The
 * stream begins with recent events, or after `Last-Event-ID`, and stays open.
 */
export const liveRoutes: FastifyPluginAsyncTypebox<GatewayDependencies> = async (app, dependencies) => {
  const streams = new LiveStreams(dependencies);
  // Before the server waits for open connections, as streams do not end by themselves.
  app.addHook('preClose', () => streams.close());

  app.get(
    '/workspaces/:workspaceId/events/live',
    {
      config: { operation },
      // A HEAD route would read the body, which does not end.
      exposeHeadRoute: false,
      schema: {
        operationId: 'followEvents',
        summary: 'Follow the events of a workspace as they come',
        produces: ['text/event-stream'],
        params: pathOf(),
        querystring: liveQuery,
        response: { 200: liveBody, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const body = await streams.open({
        admitted: { caller: request.caller, operation, workspaceId: request.workspace.id },
        organizationId: request.workspace.organization_id,
        environment: request.query.environment,
        after: lastEventId(request),
        response: reply.raw,
      });
      return reply
        .code(200)
        .headers({
          'content-type': 'text/event-stream; charset=utf-8',
          'cache-control': 'no-cache, no-transform',
          // nginx and similar proxies buffer responses.
          'x-accel-buffering': 'no',
        })
        .send(body);
    },
  );
};

function lastEventId({ headers }: FastifyRequest): string | undefined {
  const id = headers['last-event-id'];
  return typeof id === 'string' && id !== '' ? id : undefined;
}
