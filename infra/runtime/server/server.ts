import type { AddressInfo } from 'node:net';
import { type Catalog, Unavailable } from '@tributary/core';
import {
  createServer,
  type GatewayDependencies,
  gateway,
  type ServerOptions,
  unknownPathsPlugin,
} from '@tributary/gateway';
import type { FastifyInstance, onRequestHookHandler } from 'fastify';
import type { Config } from '../config/settings.ts';
import { healthRoutes, type Operations } from '../observability/operations.ts';

/** A server on a port. */
export interface RunningServer {
  readonly app: FastifyInstance;
  /** Without a trailing slash. */
  readonly url: string;
  /** From now on each answer ends its connection (`connection: close`). */
  endConnections(): void;
  close(): Promise<void>;
}

/** The server cannot listen where it should; the message says what to do. */
export class AddressUnavailable extends Error {
  /** `settings` names the variables that choose the address. */
  constructor(host: string, port: number, code: string, settings: string, options?: ErrorOptions) {
    const why =
      code === 'EADDRINUSE'
        ? `port ${port} on ${host} is taken by another program`
        : `cannot listen on ${host}:${port} (${code})`;
    super(`${why}: set ${settings} to a free address of this machine`, options);
    this.name = 'AddressUnavailable';
  }
}

/** Serves the gateway; what it answers is 503 while its catalog is not to be trusted. */
export async function startServer(
  config: ServerConfig,
  dependencies: GatewayDependencies,
  operations: Pick<Operations, 'readiness'>,
): Promise<RunningServer> {
  const trustCatalogForMs = config.catalogStaleness ?? CATALOG_STALENESS_MS;
  return listen(config, async (app) => {
    await app.register(healthRoutes, operations);
    await app.register(async (api) => {
      api.addHook('onRequest', whileTrusted(dependencies.catalog, trustCatalogForMs));
      await api.register(gateway, { ...dependencies, trustCatalogForMs });
    });
  });
}

/** Serves the short health of a role without an API, and nothing else. */
export async function startHealthServer(
  config: ServerConfig,
  operations: Pick<Operations, 'readiness'>,
): Promise<RunningServer> {
  return listen(config, async (app) => {
    await app.register(unknownPathsPlugin);
    await app.register(healthRoutes, operations);
  });
}

export type ServerConfig = Pick<Config, 'host' | 'port' | 'trustProxy'> &
  Partial<
    Pick<
      Config,
      | 'catalogStaleness'
      | 'requestTimeout'
      | 'headersTimeout'
      | 'keepAliveTimeout'
      | 'maxConnections'
      | 'hsts'
    >
  >;

/** Where nothing is configured. */
const CATALOG_STALENESS_MS = 60_000;

/** `addressSettings` names the variables that choose the address, for the message when it is taken. */
export async function listen(
  config: ServerConfig & { readonly addressSettings?: string },
  register: (app: FastifyInstance) => Promise<void>,
): Promise<RunningServer> {
  const app = createServer(optionsOf(config));
  await register(app);
  try {
    await app.listen({ host: config.host, port: config.port, backlog: 1024 });
  } catch (error) {
    if (!(error instanceof Error && 'code' in error)) throw error;
    const { addressSettings = 'PORT and HOST' } = config;
    throw new AddressUnavailable(config.host, config.port, String(error.code), addressSettings, {
      cause: error,
    });
  }
  const { port } = app.server.address() as AddressInfo;
  const host = config.host.includes(':') ? `[${config.host}]` : config.host;
  return {
    app,
    url: `http://${host}:${port}`,
    endConnections: () => app.endConnections(),
    close: () => app.close(),
  };
}

function optionsOf(config: ServerConfig): ServerOptions {
  const { trustProxy, requestTimeout, headersTimeout, keepAliveTimeout, maxConnections, hsts } = config;
  return {
    trustProxy,
    ...(requestTimeout === undefined ? {} : { requestTimeoutMs: requestTimeout }),
    ...(headersTimeout === undefined ? {} : { headersTimeoutMs: headersTimeout }),
    ...(keepAliveTimeout === undefined ? {} : { keepAliveTimeoutMs: keepAliveTimeout }),
    ...(maxConnections === undefined ? {} : { maxConnections }),
    ...(hsts === undefined ? {} : { hstsSeconds: Math.floor(hsts / 1_000) }),
  };
}

/**
 * Refuses requests with `Unavailable` while the catalog is not to be trusted: until it was read once, and whenever
 * nothing was heard of the log for longer than `staleAfterMs`. A gateway that does not know its keys yet would answer
 * 401 to good ones, and producers throw away what is refused for good; one that is cut off would go on taking keys that
 * were revoked elsewhere. A shorter silence changes nothing: what is in memory goes on to be right about what it knows.
 */
export function whileTrusted(
  catalog: Pick<Catalog, 'ready' | 'age'>,
  staleAfterMs: number,
): onRequestHookHandler {
  let caughtUp = false;
  return (_request, _reply, done) => {
    caughtUp ||= catalog.ready;
    if (!caughtUp) return done(new Unavailable('the catalog is being read'));
    done(catalog.age <= staleAfterMs ? undefined : new Unavailable('the catalog is too old to be trusted'));
  };
}
