/** The connectors: the code that sends to each kind of destination. */
export type { Resolve } from './egress/guard.ts';
export { AccessTokens } from './oauth/access-tokens.ts';
export type { OAuthClients } from './oauth/providers.ts';
export { type ConnectorsOptions, createConnectors } from './registry.ts';
