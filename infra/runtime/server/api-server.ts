import { type Catalog, isDiskAtLeast, type Operation } from '@tributary/core';
import { Unavailable } from '@tributary/core/primitives';
import { ApiError, type GatewayDependencies, gateway } from '@tributary/gateway';
import type { onRequestHookHandler, preHandlerHookHandler } from 'fastify';
import type { DiskWatch } from '../observability/disk-space.ts';
import { healthRoutes, type Operations } from '../observability/operations.ts';
import { type PreparedServer, prepare, type RunningServer, type ServerConfig } from './http-server.ts';

/** While the disk is full. */
const RETRY_AFTER_S = 5;

/** The default. */
const CATALOG_STALENESS_MS = 60_000;

/**
 * Serves the gateway. It answers 503 while its catalog cannot be trusted, and to what would add data while the disk is
 * exhausted. Removals and sign-in find space in the ballast.
 */
export async function prepareServer(
  config: ServerConfig,
  dependencies: GatewayDependencies,
  operations: Pick<Operations, 'readiness'>,
  disk?: Pick<DiskWatch, 'level' | 'makeRoom' | 'isSpent'>,
): Promise<PreparedServer> {
  const trustCatalogForMs = config.catalogStalenessMs ?? CATALOG_STALENESS_MS;
  return prepare(config, async (app) => {
    await app.register(healthRoutes, operations);
    await app.register(async (api) => {
      api.addHook('onRequest', refuseWhileUntrusted(dependencies.catalog, trustCatalogForMs));
      if (disk !== undefined) {
        api.addHook('onRequest', keepSpace(disk));
        api.addHook('onRoute', (route) => {
          if (MAY_SWITCH_OFF.has(route.config?.operation ?? ''))
            route.preHandler = [onlySwitchOff(disk), ...[route.preHandler ?? []].flat()];
        });
      }
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

/** The operations that add data of any size, refused while the disk is exhausted. */
const ADDS_DATA: ReadonlySet<string> = new Set<Operation>([
  'events.ingest',
  'profiles.write',
  'deliveries.redrive',
  'replays.create',
]);

/** The operations that may be repeated as often as there is something to remove: they get the ballast. */
const REMOVES = /\.(delete|archive|revoke|cancel)$/;
/** Reads by other methods than GET. */
const READS = /\.(search|compare|infer|validate|test|dry-run|take)$/;
/** Changes that may switch a rule or a destination off. */
const MAY_SWITCH_OFF: ReadonlySet<string> = new Set<Operation>([
  'event-forwarding-rules.update',
  'destinations.update',
]);

/**
 * Refuses new data while the disk has no space for it, before the body is read; events taken before are processed. While it is
 * full nothing changes but what is removed, discarded or switched off, and with nothing left but the ballast only removals, the
 * account of a person who signs in to look, and discards from half of it are served: a change or a discard can be repeated
 * without end.
 */
function keepSpace(disk: Pick<DiskWatch, 'level' | 'makeRoom' | 'isSpent'>): onRequestHookHandler {
  return (request, _reply, done) => {
    const { operation } = request.routeOptions.config;
    const level = disk.level();
    if (operation === undefined) return done();
    if (ADDS_DATA.has(operation)) return done(isDiskAtLeast(level, 'exhausted') ? diskFull() : undefined);
    if (REMOVES.test(operation) || (level === 'full' && operation === 'me.read')) {
      disk.makeRoom();
      return done();
    }
    if (level !== 'full' || request.method === 'GET' || READS.test(operation)) return done();
    if (operation === 'deliveries.discard') return done(disk.makeRoom('half') ? undefined : diskFull());
    done(MAY_SWITCH_OFF.has(operation) && !disk.isSpent() ? undefined : diskFull());
  };
}

/** For the operations of `MAY_SWITCH_OFF`: refuses their other changes, once the body is read. */
function onlySwitchOff(disk: Pick<DiskWatch, 'level'>): preHandlerHookHandler {
  return (request, _reply, done) => {
    if (disk.level() !== 'full') return done();
    const { enabled, paused } = (request.body ?? {}) as { enabled?: unknown; paused?: unknown };
    done(enabled === false || paused === true ? undefined : diskFull());
  };
}

function diskFull(): ApiError {
  return new ApiError(503, 'unavailable', {
    fields: { reason: 'disk_full' },
    details: [{ path: '', message: 'the disk is nearly full: nothing is added until there is space' }],
    retryAfterSeconds: RETRY_AFTER_S,
  });
}
