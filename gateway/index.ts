export { createServer, gateway, type ServerOptions } from './app.ts';
export type { GatewayDependencies, Limits } from './dependencies.ts';
export { ChangeLimits, type ChangeLimitsOptions, type ChangeRates } from './http/change-limits.ts';
export type { Identity, IdentityVerifier } from './identity/identity.ts';
export { createIdentityVerifier, type TrustedIssuer } from './identity/issuers.ts';
export { MAX_BODY_BYTES } from './plugins/body.ts';
export { unknownPathsPlugin } from './plugins/unknown-paths.ts';
export { LOOK_BUDGET, RecentEvents, type RecentEventsQuery } from './recent-events/recent-events.ts';
