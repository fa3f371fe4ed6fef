import type { FastifyPluginAsync } from 'fastify';
import { exposition, type MetricsSnapshot } from './metrics.ts';
import type { Readiness } from './readiness.ts';

/** What a process says of itself. */
export interface Operations {
  /** As known now: it must not wait for anything. */
  readiness(): Readiness;
  /** Figures of every thread of the process. */
  snapshots(): Promise<readonly MetricsSnapshot[]>;
}

/** `/livez`, `/readyz`, `/metrics`: the same on every role. */
export const operationsRoutes: FastifyPluginAsync<Operations> = async (app, operations) => {
  app.get('/livez', async () => ({ status: 'alive' }));
  app.get('/readyz', async (_request, reply) => {
    const { ready, checks } = operations.readiness();
    return reply.code(ready ? 200 : 503).send({ status: ready ? 'ready' : 'not ready', checks });
  });
  app.get('/metrics', async (_request, reply) => {
    const { contentType, body } = await exposition(await operations.snapshots());
    return reply.type(contentType).send(body);
  });
};
