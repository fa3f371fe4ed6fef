import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Catalog, type Logger, type Operation, Unavailable } from '@tributary/core';
import {
  createServer,
  type GatewayDependencies,
  gateway,
  type ServerOptions,
  unknownPathsPlugin,
} from '@tributary/gateway';
import type { FastifyInstance, onRequestHookHandler } from 'fastify';
import type { Config } from '../config/settings.ts';
import type { DiskWatch } from '../observability/disk-space.ts';
import { healthRoutes, type Operations, type Readiness } from '../observability/operations.ts';
import { OperatorError, type Shutdown } from '../process/lifecycle.ts';

/** A server that listens on a port. */
export interface RunningServer {
  readonly app: FastifyInstance;
  /** Without a trailing slash. */
  readonly url: string;
  /** Makes each further answer end its connection (`connection: close`). */
  endConnections(): void;
  close(): Promise<void>;
}

/** The server cannot listen on its address; the message says what to do. */
export class AddressUnavailable extends OperatorError {
  /** `settings`: the variables of the address. */
  constructor(host: string, port: number, code: string, settings: string, options?: ErrorOptions) {
    const why =
      code === 'EADDRINUSE'
        ? `port ${port} on ${host} is taken by another program`
        : `cannot listen on ${host}:${port} (${code})`;
    super(`${why}: set ${settings} to a free address of this machine`, options);
    this.name = 'AddressUnavailable';
  }
}

/**
 * Serves the gateway. It answers 503 while its catalog cannot be trusted, and events and profile writes with 503 while the
 * disk is exhausted.
 */
export async function startServer(
  config: ServerConfig,
  dependencies: GatewayDependencies,
  operations: Pick<Operations, 'readiness'>,
  disk?: Pick<DiskWatch, 'isExhausted'>,
): Promise<RunningServer> {
  const trustCatalogForMs = config.catalogStaleness ?? CATALOG_STALENESS_MS;
  return listen(config, async (app) => {
    await app.register(healthRoutes, operations);
    await app.register(async (api) => {
      api.addHook('onRequest', refuseWhileUntrusted(dependencies.catalog, trustCatalogForMs));
      if (disk !== undefined) api.addHook('onRequest', refuseWhileExhausted(disk));
      await api.register(gateway, { ...dependencies, trustCatalogForMs });
    });
  });
}

/** Serves only the short health routes, for a role without an API. */
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

/** The default. */
const CATALOG_STALENESS_MS = 60_000;

/** `addressSettings`: the variables of the address, for the message if it is taken. */
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
 * Refuses requests with `Unavailable` while the catalog cannot be trusted: until it was read once, and whenever the log has
 * been silent for longer than `staleAfterMs`. A gateway that does not know its keys yet would answer 401 to valid ones, and
 * producers drop events that are refused for good; one that is cut off would accept keys that were revoked elsewhere.
 * During a shorter silence the catalog in memory is good enough.
 */
export function refuseWhileUntrusted(
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

/** The operations that take data in, and so take disk space. */
const TAKES_DATA: ReadonlySet<string | undefined> = new Set<Operation>(['events.ingest', 'profiles.write']);

/**
 * Refuses new data with `Unavailable` while the disk is exhausted, before its body is read. The rest is served: what was
 * taken is processed, and profiles can be deleted.
 */
function refuseWhileExhausted(disk: Pick<DiskWatch, 'isExhausted'>): onRequestHookHandler {
  return (request, _reply, done) => {
    const isRefused = disk.isExhausted && TAKES_DATA.has(request.routeOptions.config.operation);
    done(isRefused ? new Unavailable('the disk of the data folder is nearly full') : undefined);
  };
}

/**
 * Continues to serve for `ms` after the shutdown signal, while `/readyz` is 503, until load balancers have polled it and
 * send new requests elsewhere. In the second half each answer ends its connection (`connection: close`), so that clients
 * with long-lived connections, as behind a TCP balancer, move as well. Connections that are still open then are idle.
 */
export async function drain(
  server: Pick<RunningServer, 'endConnections'>,
  ms: number,
  logger: Logger,
): Promise<void> {
  if (ms === 0) return;
  logger.info({ ms }, 'draining: not ready any more, and serving until load balancers have noticed');
  await sleep(ms / 2);
  server.endConnections();
  await sleep(ms / 2);
}

/** A process that shuts down is not ready, whatever its parts report. */
export function unlessShuttingDown({ hasBegun }: Shutdown, readiness: Readiness): Readiness {
  return hasBegun ? { ready: false, checks: { process: 'shutting down', ...readiness.checks } } : readiness;
}
