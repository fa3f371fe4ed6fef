import type { Operation } from '@tributary/core';
import fastifyPlugin from 'fastify-plugin';
import type { GatewayDependencies } from '../dependencies.ts';

/** Goes on for as long as somebody watches. */
const WATCHED: Operation = 'events.live';

/** What a request that no call is at counts for. */
const NONE = 'none';

/** Tells of every answer what it was and how long it took. */
export const figuresPlugin = fastifyPlugin<Pick<GatewayDependencies, 'metrics'>>(async (app, { metrics }) => {
  app.addHook('onResponse', (request, reply, done) => {
    const { operation = NONE } = request.routeOptions.config;
    metrics.count('tributary_http_requests_total', { operation, status: String(reply.statusCode) });
    if (operation !== WATCHED)
      metrics.observe('tributary_http_request_duration_seconds', reply.elapsedTime / 1_000, { operation });
    done();
  });
});
