import type { FastifyPluginAsync } from 'fastify';
import type { GatewayDependencies } from '../../dependencies.ts';

export const eventRoutes: FastifyPluginAsync<GatewayDependencies> = async () => {};
