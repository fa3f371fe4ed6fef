/** The code that knows how to speak to each kind of destination. */
export type { Resolve } from './egress/guard.ts';
export { describeConnectors } from './reference.ts';
export { type ConnectorsOptions, createConnectors } from './registry.ts';
