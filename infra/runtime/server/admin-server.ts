import { isIP } from 'node:net';
import type { Logger } from '@tributary/core';
import { unknownPathsPlugin } from '@tributary/gateway/server';
import type { onRequestHookHandler } from 'fastify';
import type { Config } from '../config/settings.ts';
import { adminRoutes, type Operations } from '../observability/operations.ts';
import { listen, type RunningServer, type ServerConfig } from './http-server.ts';

/** Scrapers and operators are few. Further connections are closed at once. */
const MAX_CONNECTIONS = 100;
/** Distance of the default admin port from the public port. */
const OFFSET = 1_000;
const HIGHEST_PORT = 65_535;

type AdminConfig = Omit<ServerConfig, 'maxConnections'> & Pick<Config, 'adminPort' | 'adminHost'>;

/**
 * The admin port of a process: metrics and detailed readiness, without credentials and therefore on loopback by default.
 * The limits for slow and idle clients are those of the public port.
 */
export function startAdminServer(
  config: AdminConfig,
  operations: Operations,
  logger: Logger,
): Promise<RunningServer> {
  const { adminHost: host } = config;
  const ownSettings = 'TRIBUTARY_ADMIN_PORT and TRIBUTARY_ADMIN_HOST';
  const address = {
    ...config,
    host,
    port: adminPort(config),
    maxConnections: MAX_CONNECTIONS,
    addressSettings:
      config.adminPort === undefined ? `PORT (the admin port follows it), or ${ownSettings},` : ownSettings,
  };
  return listen(address, async (app) => {
    if (isLoopback(host)) app.addHook('onRequest', refuseForeignNames);
    await app.register(unknownPathsPlugin);
    await app.register(adminRoutes, { ...operations, logger });
  });
}

/** By default derived from the public port, so that roles on one machine do not collide; 0 if that is 0. */
export function adminPort({ port, adminPort: chosen }: Pick<Config, 'port' | 'adminPort'>): number {
  if (chosen !== undefined || port === 0) return chosen ?? 0;
  return port + OFFSET > HIGHEST_PORT ? port - OFFSET : port + OFFSET;
}

/**
 * Refuses requests by DNS rebinding: a web page whose name resolves to loopback has the same origin as this port, so the
 * absence of CORS headers does not stop it. Its requests carry that name as `Host`.
 */
const refuseForeignNames: onRequestHookHandler = (request, reply, done) => {
  const name = request.hostname.replace(/^\[|\]$/g, '');
  if (isIP(name) !== 0 || name === 'localhost') return done();
  const details = [{ path: 'host', message: 'address this port as localhost or by its IP address' }];
  void reply.code(421).send({ error: 'misdirected request', details });
};

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127\./.test(host);
}
