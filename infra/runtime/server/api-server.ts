import type { Catalog, Operation } from '@tributary/core';
import { Unavailable } from '@tributary/core/primitives';
import { type GatewayDependencies, gateway } from '@tributary/gateway';
import type { onRequestHookHandler } from 'fastify';
import type { DiskWatch } from '../observability/disk-space.ts';
import { healthRoutes, type Operations } from '../observability/operations.ts';
import { type PreparedServer, prepare, type RunningServer, type ServerConfig } from './http-server.ts';

/** The default. */
const CATALOG_STALENESS_MS = 60_000;

/**
 * Serves the gateway. It answers 503 while its catalog cannot be trusted, and events and profile writes with 503 while the
 * disk is exhausted.
 */
export async function prepareServer(
  config: ServerConfig,
  dependencies: GatewayDependencies,
  operations: Pick<Operations, 'readiness'>,
  disk?: Pick<DiskWatch, 'isExhausted'>,
): Promise<PreparedServer> {
  const trustCatalogForMs = config.catalogStalenessMs ?? CATALOG_STALENESS_MS;
  return prepare(config, async (app) => {
    await app.register(healthRoutes, operations);
    await app.register(async (api) => {
      api.addHook('onRequest', refuseWhileUntrusted(dependencies.catalog, trustCatalogForMs));
      if (disk !== undefined) api.addHook('onRequest', refuseWhileExhausted(disk));
      await api.register(gateway, { ...dependencies, trustCatalogForMs });
    });
  });
}

/** The same, listening at once. */
export async function startServer(...options: Parameters<typeof prepareServer>): Promise<RunningServer> {
  return (await prepareServer(...options)).listen();
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
 * Refuses new data with `Unavailable` while the disk is exhausted, before its body is read. The rest is served: events
 * taken before are processed, and profiles can be deleted.
 */
function refuseWhileExhausted(disk: Pick<DiskWatch, 'isExhausted'>): onRequestHookHandler {
  return (request, _reply, done) => {
    const isRefused = disk.isExhausted && TAKES_DATA.has(request.routeOptions.config.operation);
    done(isRefused ? new Unavailable('the disk of the data folder is nearly full') : undefined);
  };
}
