export { createServer, gateway, MAX_BODY_BYTES, type ServerOptions } from './app.ts';
export type { GatewayDependencies, Limits } from './dependencies.ts';
export type { Identity, IdentityVerifier } from './identity/identity.ts';
export { createIdentityVerifier, type TrustedIssuer } from './identity/issuers.ts';
export { LOOK_BUDGET, RecentEvents, type RecentEventsQuery } from './recent-events/recent-events.ts';
