import type { FastifyPluginAsync } from 'fastify';
import type { GatewayDependencies } from '../../dependencies.ts';
import { readCallHeaders } from './admission.ts';
import { deletionRoute } from './deletion.ts';
import { ProfileCalls } from './profile-calls.ts';
import { searchRoute } from './search.ts';
import { splitRoute, unlinkRoute } from './unlink-and-split.ts';
import { writeRoute } from './write.ts';

/**
 * `/cdp/v1/users`: the profile API. The order of its checks: the credential (401), headers and body (400), scope,
 * organization and membership (403), and last the regions (400), as only members may know the regions of an organization.
 */
export const profileRoutes: FastifyPluginAsync<GatewayDependencies> = async (app, dependencies) => {
  app.decorateRequest('callHeaders');
  app.addHook('onRequest', async (request) => {
    request.callHeaders = readCallHeaders(request);
  });
  const calls = new ProfileCalls(dependencies);
  for (const call of [writeRoute, searchRoute, deletionRoute, unlinkRoute, splitRoute])
    await app.register(call, { calls });
};
