export { gateway } from './app.ts';
export type { Identity, IdentityVerifier } from './authentication/id-tokens.ts';
export { createIdentityVerifier, type TrustedIssuer } from './authentication/id-tokens.ts';
export type { GatewayDependencies, Limits } from './dependencies.ts';
export { RecentEvents, type RecentEventsQuery, SCAN_BUDGET } from './event-search/recent-events.ts';
export { ChangeLimits, type ChangeLimitsOptions, type ChangeRates } from './limits/change-limits.ts';
export { MAX_BODY_BYTES } from './request-body/request-body.ts';
export { createServer, type ServerOptions } from './server/create-server.ts';
export { unknownPathsPlugin } from './server/unknown-paths.ts';
