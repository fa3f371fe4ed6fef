import type { FastifyPluginAsync } from 'fastify';
import type { GatewayDependencies } from '../dependencies.ts';
import { alertRoutes } from './alerts/routes.ts';
import { auditRoutes } from './audit-log.ts';
import { deliveryRoutes } from './deliveries/routes.ts';
import { destinationHealthRoutes } from './destinations/destination-health.ts';
import { destinationTypeRoutes } from './destinations/destination-types.ts';
import { destinationRoutes } from './destinations/routes.ts';
import { versionRoutes } from './event-contracts/contract-versions.ts';
import { violationRoutes } from './event-contracts/contract-violations.ts';
import { contractRoutes } from './event-contracts/routes.ts';
import { trackingPlanRoutes } from './event-contracts/tracking-plan/routes.ts';
import { ruleRoutes } from './event-forwarding-rules/routes.ts';
import { eventTraceRoutes } from './event-trace.ts';
import { transformationMetricsRoutes, transformationRoutes } from './event-transformations/routes.ts';
import { transformationVersionRoutes } from './event-transformations/versions.ts';
import { volumeRoutes } from './event-volume.ts';
import { eventRoutes } from './events.ts';
import { funnelRoutes } from './funnel/routes.ts';
import { apiKeyRoutes } from './keys/api-keys.ts';
import { clientKeyRoutes } from './keys/client-keys.ts';
import { writeKeyRoutes } from './keys/write-keys.ts';
import { liveRoutes } from './live-events.ts';
import { memberRoutes } from './members/members.ts';
import { noticeAddressRoutes } from './notice-addresses.ts';
import { organizationRoutes } from './organizations/organizations.ts';
import { profileSettingsRoutes } from './organizations/profile-settings.ts';
import { recentEventRoutes } from './recent-events.ts';
import { replayRoutes } from './replays/routes.ts';
import { sourceRoutes } from './sources.ts';
import { meRoutes, systemRoutes } from './system.ts';
import { storageRoutes } from './workspaces/storage.ts';
import { workspaceRoutes } from './workspaces/workspaces.ts';

/** The resources of the platform API. */
export const routes: FastifyPluginAsync<GatewayDependencies> = async (app, dependencies) => {
  for (const resource of [
    organizationRoutes,
    profileSettingsRoutes,
    clientKeyRoutes,
    memberRoutes,
    noticeAddressRoutes,
    workspaceRoutes,
    storageRoutes,
    apiKeyRoutes,
    writeKeyRoutes,
    sourceRoutes,
    eventRoutes,
    eventTraceRoutes,
    recentEventRoutes,
    liveRoutes,
    contractRoutes,
    versionRoutes,
    violationRoutes,
    trackingPlanRoutes,
    transformationRoutes,
    transformationVersionRoutes,
    transformationMetricsRoutes,
    ruleRoutes,
    destinationTypeRoutes,
    destinationHealthRoutes,
    destinationRoutes,
    deliveryRoutes,
    alertRoutes,
    replayRoutes,
    volumeRoutes,
    funnelRoutes,
    auditRoutes,
    meRoutes,
    systemRoutes,
  ])
    await app.register(resource, dependencies);
};
