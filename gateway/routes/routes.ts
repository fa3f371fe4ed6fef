import type { FastifyPluginAsync } from 'fastify';
import type { GatewayDependencies } from '../dependencies.ts';
import { eventRoutes } from './events/routes.ts';

/** The resources of the platform API, one folder each. */
export const routes: FastifyPluginAsync<GatewayDependencies> = async (app, dependencies) => {
  await app.register(eventRoutes, dependencies);
};
