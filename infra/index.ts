/** How the tests and the demo reach the runtime and the adapters. */

export { describeConfig, readConfig } from './runtime/config/config.ts';
export { openDevIssuer } from './runtime/issuer/dev-issuer.ts';
