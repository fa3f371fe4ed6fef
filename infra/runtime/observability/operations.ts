import { type Catalog, type Logger, messageOf } from '@tributary/core';
import type { FastifyPluginAsync } from 'fastify';
import { createScrape, type MetricSources } from './metrics.ts';

/** The metrics and health that a process reports about itself. */
export interface Operations {
  /** The current state. It must not wait for anything. */
  readiness(): Readiness;
  readonly metrics: MetricSources;
  /** The view of the installation; absent in a role without the API. */
  system?(): Promise<object>;
}

/**
 * `/livez` and a short `/readyz` for load balancers, on the public port of every role. The body names no engines or errors,
 * because anyone may call it.
 */
export const healthRoutes: FastifyPluginAsync<Pick<Operations, 'readiness'>> = async (app, operations) => {
  app.get('/livez', async () => ({ status: 'alive' }));
  app.get('/readyz', async (_request, reply) => {
    const { ready } = operations.readiness();
    return reply.code(ready ? 200 : 503).send({ status: ready ? 'ok' : 'unavailable' });
  });
};

/**
 * `/livez`, `/readyz` with the state of every part, and `/metrics`: for operators, on the admin port of every role. A role
 * with the API has `/system` as well, the answer of `GET /api/v1/system`.
 */
export const adminRoutes: FastifyPluginAsync<Operations & { readonly logger: Logger }> = async (
  app,
  operations,
) => {
  const scrape = createScrape(operations.metrics, operations);
  app.get('/livez', async () => ({ status: 'alive' }));
  app.get('/readyz', async (_request, reply) => {
    const { ready, checks } = operations.readiness();
    return reply.code(ready ? 200 : 503).send({ status: ready ? 'ready' : 'not ready', checks });
  });
  app.get('/system', async (_request, reply) => {
    if (operations.system === undefined) return reply.code(404).send({ error: 'not found' });
    try {
      return await operations.system();
    } catch (error) {
      operations.logger.warn({ error: messageOf(error) }, 'the processes of the installation cannot be read');
      return reply.code(503).send({ error: 'unavailable' });
    }
  });
  app.get('/metrics', async (_request, reply) => {
    const { contentType, body } = await scrape();
    return reply.type(contentType).send(body);
  });
};

/** Whether a process may be given work, and the state of each part. Only configuration and catalog decide. */
export interface Readiness {
  readonly ready: boolean;
  readonly checks: Readonly<Record<string, string>>;
}

/** Readiness by the catalog. Engines are only reported: an outage must not take processes out of service. */
export function catalogReadiness(
  catalog: Pick<Catalog, 'ready' | 'age' | 'fault'>,
  engines: Readonly<Record<string, string>> = {},
): Readiness {
  return { ready: catalog.ready, checks: { catalog: stateOf(catalog), ...engines } };
}

/** A catalog silent for longer counts as cut off from the log, not as catching up, ms. */
const SILENCE_MS = 5_000;

function stateOf({ ready, age, fault }: Pick<Catalog, 'ready' | 'age' | 'fault'>): string {
  if (ready) return 'caught up';
  if (fault !== undefined) return fault;
  return Number.isFinite(age) && age > SILENCE_MS
    ? `nothing heard of the log for ${Math.round(age / 1_000)} s`
    : 'catching up';
}
