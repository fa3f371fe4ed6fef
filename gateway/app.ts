import compress from '@fastify/compress';
import type { Operation } from '@tributary/core';
import type { FastifyPluginAsync } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { accessPlugin } from './authentication/access.ts';
import { confirmationRoutes } from './confirmation/confirmation.ts';
import { consoleRoutes } from './console/console.ts';
import type { GatewayDependencies } from './dependencies.ts';
import { errorsPlugin } from './errors/error-handler.ts';
import { guideRoutes } from './guide/guide.ts';
import { responseMemoryPlugin } from './limits/memory-budgets.ts';
import { rateLimitsPlugin } from './limits/rate-limits.ts';
import { openapiPlugin, referencePage } from './openapi/openapi.ts';
import { bodyPlugin } from './request-body/request-body.ts';
import { conditionalReadsPlugin } from './resources/catalog-entities.ts';
import { patchPlugin } from './resources/patch.ts';
import { profileRoutes } from './routes/profiles/routes.ts';
import { routes } from './routes/routes.ts';
import { segmentRoutes } from './routes/segment/routes.ts';
import { crossOriginPlugin } from './server/cross-origin.ts';
import { unknownPathsPlugin } from './server/unknown-paths.ts';

/** The HTTP API of Tributary as a plugin. Registers on any server; tests need no port. */
export const gateway: FastifyPluginAsync<GatewayDependencies> = async (app, dependencies) => {
  await app.register(metricsPlugin, dependencies);
  await app.register(errorsPlugin, dependencies);
  await app.register(conditionalReadsPlugin);
  await app.register(responseMemoryPlugin, dependencies);
  await app.register(compressionPlugin);
  await app.register(crossOriginPlugin, dependencies.crossOrigin ?? {});
  await app.register(unknownPathsPlugin);
  await app.register(openapiPlugin);
  await app.register(referencePage);
  if (dependencies.console !== undefined)
    await app.register(consoleRoutes, { ...dependencies.console, clock: dependencies.clock });
  await app.register(confirmationRoutes, dependencies);
  if (dependencies.guide !== undefined) await app.register(guideRoutes, dependencies.guide);
  await app.register(async (api) => {
    await api.register(bodyPlugin, dependencies);
    await api.register(accessPlugin, dependencies);
    await api.register(rateLimitsPlugin, dependencies);
    await api.register(patchPlugin);
    await api.register(async (v1) => v1.register(routes, dependencies), { prefix: '/api/v1' });
    await api.register(segmentRoutes, dependencies);
    await api.register(async (cdp) => cdp.register(profileRoutes, dependencies), { prefix: '/cdp/v1' });
  });
};

/** Shorter answers gain nothing by compression, bytes. */
const COMPRESSED_FROM = 1024;

/** Compresses answers for clients that accept it. Those of ingestion are short, and a hook would cost each of them. */
const compressionPlugin = fastifyPlugin(async (app) => {
  app.addHook('onRoute', (route) => {
    if (route.config?.operation === 'events.ingest') route.compress = false;
  });
  await app.register(compress, {
    encodings: ['gzip', 'deflate'],
    globalDecompression: false,
    threshold: COMPRESSED_FROM,
  });
});

/** Not timed: a stream lasts as long as its client stays. */
const STREAM: Operation = 'events.live';

/** The operation label of requests without a route. */
const NONE = 'none';

/** Counts and times every response. */
const metricsPlugin = fastifyPlugin<Pick<GatewayDependencies, 'metrics'>>(async (app, { metrics }) => {
  app.addHook('onResponse', (request, reply, done) => {
    const { operation = NONE } = request.routeOptions.config;
    metrics.count('tributary_http_requests_total', { operation, status: String(reply.statusCode) });
    if (operation !== STREAM)
      metrics.observe('tributary_http_request_duration_seconds', reply.elapsedTime / 1_000, { operation });
    done();
  });
});
