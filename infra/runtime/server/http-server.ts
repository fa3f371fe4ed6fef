import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from '@tributary/core';
import { createServer, type ServerOptions, unknownPathsPlugin } from '@tributary/gateway/server';
import type { FastifyInstance } from 'fastify';
import type { Config } from '../config/settings.ts';
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

/** A server that does not listen yet. */
export interface PreparedServer {
  /** Rejects with `AddressUnavailable`. */
  listen(): Promise<RunningServer>;
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
  }
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
      | 'catalogStalenessMs'
      | 'requestTimeoutMs'
      | 'headersTimeoutMs'
      | 'keepAliveTimeoutMs'
      | 'maxConnections'
      | 'hstsMs'
    >
  >;

/** `addressSettings`: the variables of the address, for the message if it is taken. */
type Listening = ServerConfig & { readonly addressSettings?: string };

export async function listen(
  config: Listening,
  register: (app: FastifyInstance) => Promise<void>,
): Promise<RunningServer> {
  return (await prepare(config, register)).listen();
}

/** A server with its routes, which does not listen yet. */
export async function prepare(
  config: Listening,
  register: (app: FastifyInstance) => Promise<void>,
): Promise<PreparedServer> {
  const app = createServer(optionsOf(config));
  await register(app);
  await app.ready();
  const close = () => app.close();
  return {
    async listen() {
      const url = await listenAt(config, app);
      return { app, url, endConnections: () => app.endConnections(), close };
    },
    close,
  };
}

/** Resolves to the URL. */
async function listenAt(config: Listening, app: FastifyInstance): Promise<string> {
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
  return `http://${host}:${port}`;
}

function optionsOf(config: ServerConfig): ServerOptions {
  const { trustProxy, requestTimeoutMs, headersTimeoutMs, keepAliveTimeoutMs, maxConnections, hstsMs } =
    config;
  return {
    trustProxy,
    ...(requestTimeoutMs === undefined ? {} : { requestTimeoutMs }),
    ...(headersTimeoutMs === undefined ? {} : { headersTimeoutMs }),
    ...(keepAliveTimeoutMs === undefined ? {} : { keepAliveTimeoutMs }),
    ...(maxConnections === undefined ? {} : { maxConnections }),
    ...(hstsMs === undefined ? {} : { hstsSeconds: Math.floor(hstsMs / 1_000) }),
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
