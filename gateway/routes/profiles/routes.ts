import { permissionOf } from '@tributary/core';
import type { FastifyRequest } from 'fastify';
import type { Routes } from '../../dependencies.ts';
import { invalidRequest } from '../../errors/api-error.ts';
import { describeValidation, MAX_DETAILS } from '../../errors/error-handler.ts';
import { explained, ProfileCalls, readCallHeaders } from './calls.ts';
import { deletionRoute } from './deletion.ts';
import { searchRoute } from './search.ts';
import { splitRoute, unlinkRoute } from './unlink-and-split.ts';
import { writeRoute } from './write.ts';

/**
 * `/cdp/v1/users`: the profile API. The order of its checks: the credential (401), headers and body together (400), scope,
 * organization and membership (403), and last the regions (400), as only members may know the regions of an organization.
 */
export const profileRoutes: Routes = async (app, dependencies) => {
  app.decorateRequest('callHeaders');
  app.decorateRequest('headerFaults');
  app.addHook('onRoute', (route) => {
    route.attachValidation = true; // so that one response states what is wrong with the headers and with the body
  });
  app.addHook('onRequest', async (request) => {
    request.headerFaults = [];
    request.callHeaders = readCallHeaders(request, scopeOf(request), request.headerFaults);
  });
  app.addHook('preHandler', async ({ headerFaults, validationError: found }) => {
    const ofBody = describeValidation(found?.validation ?? [], found?.validationContext);
    const faults = [...headerFaults, ...ofBody.map(explained)].slice(0, MAX_DETAILS);
    if (faults.length > 0) throw invalidRequest(...faults);
  });
  const calls = new ProfileCalls(dependencies);
  for (const call of [writeRoute, searchRoute, deletionRoute, unlinkRoute, splitRoute])
    await app.register(call, { calls });
};

/** The scope that an operation of the profile API needs. */
function scopeOf({ routeOptions: { config } }: FastifyRequest) {
  const scope = config.operation === undefined ? undefined : permissionOf(config.operation).scope;
  if (scope === undefined)
    throw new Error('a route of the profile API names no scope in the permission table');
  return scope;
}
