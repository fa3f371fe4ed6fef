import { newId } from '@tributary/core';
import Fastify, { type FastifyInstance, type FastifyPluginAsync } from 'fastify';
import type { GatewayDependencies } from './dependencies.ts';
import { answerUnreadable, answerUnroutable } from './http/unreadable.ts';
import { accessPlugin } from './plugins/access.ts';
import { bodyPlugin } from './plugins/body.ts';
import { errorsPlugin } from './plugins/errors.ts';
import { routes } from './routes/routes.ts';

/** A body at most, inflated. */
export const MAX_BODY_BYTES = 4 * 1024 * 1024;

export interface ServerOptions {
  /** Addresses or ranges of proxies whose `X-Forwarded-For` is believed. */
  readonly trustProxy?: readonly string[];
}

/** How long a client may take to send a request. */
const REQUEST_TIMEOUT_MS = 30_000;

/** A Fastify instance as the gateway needs it: strict validation, request ids, no library wording. */
export function createServer(options: ServerOptions = {}): FastifyInstance {
  const trustProxy = options.trustProxy ?? [];
  const app = Fastify({
    trustProxy: trustProxy.length === 0 ? false : [...trustProxy],
    logger: false,
    bodyLimit: MAX_BODY_BYTES,
    requestTimeout: REQUEST_TIMEOUT_MS,
    genReqId: () => newId(),
    requestIdHeader: false,
    return503OnClosing: false,
    forceCloseConnections: 'idle',
    frameworkErrors: answerUnroutable,
    clientErrorHandler: answerUnreadable,
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 200 },
    ajv: {
      customOptions: {
        coerceTypes: false,
        removeAdditional: false,
        useDefaults: false,
        allErrors: true,
        allowUnionTypes: true,
      },
    },
  });
  app.addHook('onRequest', (request, reply, done) => {
    reply.header('x-request-id', request.id);
    done();
  });
  return app;
}

/** The HTTP side of Tributary as a plugin: registers on any server, needs no port of its own in tests. */
export const gateway: FastifyPluginAsync<GatewayDependencies> = async (app, dependencies) => {
  await app.register(errorsPlugin, dependencies);
  await app.register(async (api) => {
    await api.register(bodyPlugin);
    await api.register(accessPlugin, dependencies);
    await api.register(async (v1) => v1.register(routes, dependencies), { prefix: '/api/v1' });
  });
};
