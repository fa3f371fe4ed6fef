import type { FastifyPluginAsync } from 'fastify';
import type { GatewayDependencies } from '../dependencies.ts';
import { apiKeyRoutes } from './api-keys/routes.ts';
import { auditRoutes } from './audit-log/routes.ts';
import { clientKeyRoutes } from './client-keys/routes.ts';
import { deliveryRoutes } from './deliveries/routes.ts';
import { destinationTypeRoutes } from './destination-types/routes.ts';
import { destinationRoutes } from './destinations/routes.ts';
import { contractRoutes } from './event-contracts/routes.ts';
import { versionRoutes } from './event-contracts/version-routes.ts';
import { violationRoutes } from './event-contracts/violation-routes.ts';
import { ruleRoutes } from './event-forwarding-rules/routes.ts';
import { writeKeyRoutes } from './event-keys/routes.ts';
import { eventTraceRoutes } from './event-trace.ts';
import { transformationMetricsRoutes } from './event-transformations/metrics-routes.ts';
import { transformationRoutes } from './event-transformations/routes.ts';
import { transformationVersionRoutes } from './event-transformations/version-routes.ts';
import { volumeRoutes } from './event-volume/routes.ts';
import { eventRoutes } from './events.ts';
import { liveRoutes } from './live-events.ts';
import { memberRoutes } from './members/routes.ts';
import { profileSettingsRoutes } from './organizations/profile-settings.ts';
import { organizationRoutes } from './organizations/routes.ts';
import { replayRoutes } from './replays/routes.ts';
import { sourceRoutes } from './sources/routes.ts';
import { workspaceRoutes } from './workspaces/routes.ts';

/** The resources of the platform API, one folder each. */
export const routes: FastifyPluginAsync<GatewayDependencies> = async (app, dependencies) => {
  for (const resource of [
    organizationRoutes,
    profileSettingsRoutes,
    clientKeyRoutes,
    memberRoutes,
    workspaceRoutes,
    apiKeyRoutes,
    writeKeyRoutes,
    sourceRoutes,
    eventRoutes,
    eventTraceRoutes,
    liveRoutes,
    contractRoutes,
    versionRoutes,
    violationRoutes,
    transformationRoutes,
    transformationVersionRoutes,
    transformationMetricsRoutes,
    ruleRoutes,
    destinationTypeRoutes,
    destinationRoutes,
    deliveryRoutes,
    replayRoutes,
    volumeRoutes,
    auditRoutes,
  ])
    await app.register(resource, dependencies);
};
