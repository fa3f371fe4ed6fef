import compress from '@fastify/compress';
import type { Operation } from '@tributary/core';
import type { FastifyPluginAsync, FastifyPluginOptions } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { accessPlugin } from './authentication/access.ts';
import type { GatewayDependencies, Routes } from './dependencies.ts';
import { errorsPlugin } from './errors/error-handler.ts';
import { responseMemoryPlugin } from './limits/memory-budgets.ts';
import { rateLimitsPlugin } from './limits/rate-limits.ts';
import { openapiPlugin, referencePage } from './openapi/openapi.ts';
import { confirmationRoutes } from './pages/confirmation.ts';
import { consoleRoutes } from './pages/console.ts';
import { guideRoutes } from './pages/guide.ts';
import { bodyPlugin } from './request-body/request-body.ts';
import { conditionalReadsPlugin, patchPlugin } from './resources/catalog-entities.ts';
import { alertRoutes } from './routes/alerts.ts';
import { auditRoutes } from './routes/audit-log.ts';
import { violationRoutes } from './routes/contract-violations.ts';
import { deliveryRoutes } from './routes/deliveries.ts';
import { destinationTypeRoutes } from './routes/destination-types.ts';
import { destinationHealthRoutes, destinationRoutes } from './routes/destinations.ts';
import { contractRoutes, versionRoutes } from './routes/event-contracts.ts';
import { ruleRoutes } from './routes/event-forwarding-rules.ts';
import { eventTraceRoutes } from './routes/event-trace.ts';
import { transformationMetricsRoutes, transformationRoutes } from './routes/event-transformations.ts';
import { volumeRoutes } from './routes/event-volume.ts';
import { eventRoutes } from './routes/events.ts';
import { funnelRoutes } from './routes/funnel.ts';
import { apiKeyRoutes, clientKeyRoutes, writeKeyRoutes } from './routes/keys.ts';
import { liveRoutes } from './routes/live-events.ts';
import { memberRoutes } from './routes/members.ts';
import { noticeAddressRoutes } from './routes/notice-addresses.ts';
import { organizationRoutes } from './routes/organizations.ts';
import { profileSettingsRoutes } from './routes/profile-settings.ts';
import { profileRoutes } from './routes/profiles/routes.ts';
import { recentEventRoutes } from './routes/recent-events.ts';
import { replayRoutes } from './routes/replays.ts';
import { segmentRoutes } from './routes/segment/routes.ts';
import { sourceRoutes } from './routes/sources.ts';
import { meRoutes, systemRoutes } from './routes/system.ts';
import { trackingPlanRoutes } from './routes/tracking-plan.ts';
import { warehouseRoutes } from './routes/warehouses.ts';
import { webhookRoutes } from './routes/webhooks/routes.ts';
import { storageRoutes, workspaceRoutes } from './routes/workspaces.ts';
import { unknownPathsPlugin } from './server/create-server.ts';
import { crossOriginPlugin } from './server/cross-origin.ts';

/** The groups of the reference, in the order in which a reader needs them, with what each is for and its routes. */
const GROUPS: readonly (readonly [name: string, description: string, ...routes: Routes[]])[] = [
  [
    'events',
    'Send events, follow them live, and trace a single event.',
    eventRoutes,
    liveRoutes,
    eventTraceRoutes,
  ],
  [
    'event-contracts',
    'Schemas that events must satisfy, and the violations of them.',
    contractRoutes,
    versionRoutes,
    violationRoutes,
  ],
  ['tracking-plan', 'All active contracts as one document.', trackingPlanRoutes],
  [
    'event-transformations',
    'JavaScript that changes, drops or multiplies events on their way.',
    transformationRoutes,
    transformationMetricsRoutes,
  ],
  [
    'destinations',
    'Places that events are delivered to, and their health.',
    destinationRoutes,
    destinationHealthRoutes,
  ],
  [
    'destination-types',
    'The kinds of destination, with the settings that each takes.',
    destinationTypeRoutes,
  ],
  ['warehouse', 'Loads of a warehouse, and its tables.', warehouseRoutes],
  ['event-forwarding-rules', 'Which events go to which destination.', ruleRoutes],
  [
    'deliveries',
    'Events on their way to a destination; redrive or discard those that failed.',
    deliveryRoutes,
  ],
  ['profiles', 'Write, search and delete customer profiles.', profileRoutes],
  ['funnel', 'Counts of events by outcome.', funnelRoutes],
  ['event-volume', 'Accepted events by the hour.', volumeRoutes],
  ['storage', 'Bytes of a workspace in the log, and its budgets.', storageRoutes],
  ['recent-events', 'The newest events of a workspace.', recentEventRoutes],
  ['alerts', 'Alerts on the numbers of a workspace, and the recipients of their notices.', alertRoutes],
  [
    'notice-addresses',
    'The addresses that notices are sent to, once they are confirmed.',
    noticeAddressRoutes,
  ],
  ['replays', 'Send stored events through the rules or contracts again.', replayRoutes],
  ['sdks', 'The calls of SDKs that were made for Segment or RudderStack.', segmentRoutes],
  ['webhooks', 'Webhooks of services without an SDK, which become events.', webhookRoutes],
  ['workspaces', 'The workspaces of an organization.', workspaceRoutes],
  ['organizations', 'Organizations, with the number that the profile API knows each by.', organizationRoutes],
  ['members', 'The members of an organization or a workspace, and their roles.', memberRoutes],
  ['profile-settings', 'How an organization identifies people.', profileSettingsRoutes],
  ['sources', 'Where events come from.', sourceRoutes],
  ['event-keys', 'Write keys, which send events.', writeKeyRoutes],
  ['api-keys', 'API keys, which manage one workspace.', apiKeyRoutes],
  ['client-keys', 'Client keys, which call the profile API.', clientKeyRoutes],
  ['audit-log', 'Who changed what, and when.', auditRoutes],
  ['me', 'The caller.', meRoutes],
  ['system', 'The installation, for its operators.', systemRoutes],
];

/** Where the paths of a group begin, if not below `/api/v1`. */
const PREFIXES: Readonly<Record<string, string>> = { profiles: '/cdp/v1', sdks: '', webhooks: '' };

/** The HTTP API of Tributary as a plugin. Registers on any server; tests need no port. */
export const gateway: FastifyPluginAsync<GatewayDependencies> = async (app, dependencies) => {
  await app.register(metricsPlugin, dependencies);
  await app.register(errorsPlugin, dependencies);
  await app.register(conditionalReadsPlugin);
  await app.register(responseMemoryPlugin, dependencies);
  await app.register(compressionPlugin);
  await app.register(crossOriginPlugin, dependencies.crossOrigin ?? {});
  await app.register(unknownPathsPlugin);
  await app.register(openapiPlugin, { groups: GROUPS.map(([name, description]) => ({ name, description })) });
  await app.register(referencePage);
  if (dependencies.console !== undefined)
    await app.register(consoleRoutes, { ...dependencies.console, clock: dependencies.clock });
  await app.register(confirmationRoutes, dependencies);
  if (dependencies.guide !== undefined) await app.register(guideRoutes, dependencies.guide);
  await app.register(async (api) => {
    await api.register(bodyPlugin, dependencies);
    await api.register(accessPlugin, dependencies);
    await api.register(rateLimitsPlugin, dependencies);
    await api.register(patchPlugin);
    for (const [name, , ...routes] of GROUPS)
      await api.register(
        named(name, async (below) => {
          for (const some of routes) await below.register(named(some.name, some), dependencies);
        }),
        { prefix: PREFIXES[name] ?? '/api/v1' },
      );
  });
};

/** Fastify compares a plugin without a name with every module that is loaded. */
function named<Options extends FastifyPluginOptions>(name: string, plugin: FastifyPluginAsync<Options>) {
  return fastifyPlugin(plugin, { name, encapsulate: true });
}

/** Shorter answers gain nothing by compression, bytes. */
const COMPRESSED_FROM = 1024;

/** Compresses answers for clients that accept it. Those of ingestion are short, and a hook would cost each of them. */
const compressionPlugin = fastifyPlugin(async (app) => {
  app.addHook('onRoute', (route) => {
    if (route.config?.operation === 'events.ingest') route.compress = false;
  });
  await app.register(compress, {
    encodings: ['gzip', 'deflate'],
    globalDecompression: false,
    threshold: COMPRESSED_FROM,
  });
});

/** Not timed: a stream lasts as long as its client stays. */
const STREAM: Operation = 'events.live';

/** The operation label of requests without a route. */
const NONE = 'none';

/** Counts and times every response. */
const metricsPlugin = fastifyPlugin<Pick<GatewayDependencies, 'metrics'>>(async (app, { metrics }) => {
  app.addHook('onResponse', (request, reply, done) => {
    const { operation = NONE } = request.routeOptions.config;
    metrics.count('tributary_http_requests_total', { operation, status: String(reply.statusCode) });
    if (operation !== STREAM)
      metrics.observe('tributary_http_request_duration_seconds', reply.elapsedTime / 1_000, { operation });
    done();
  });
});
