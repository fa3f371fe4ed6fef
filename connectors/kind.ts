import type { ChildUser, Clock, Connector, ConnectorDescription } from '@tributary/core';
import type { EgressGuard } from './egress/guard.ts';

/** What a connector is made from. */
export interface ConnectorContext {
  /** The only way out: a connector that opens connections opens them through it. */
  readonly egress: EgressGuard;
  /** Connectors that write files write them below it. */
  readonly dataFolder: string;
  /** One call to a destination takes at most this long, ms. */
  readonly timeoutMs: number;
  readonly clock: Clock;
  /** How processes with other people's code are started; by default as this process's own user. */
  readonly children?: { readonly user: ChildUser; readonly wrapper: readonly string[] };
}

/**
 * One kind of destination. Its folder holds, in reading order: `settings.ts` (what a user writes, and the same as the
 * connector reads it), `description.ts`, `connector.ts`, `index.ts`; beside them what only it needs.
 */
export interface ConnectorKind {
  readonly description: ConnectorDescription;
  create(context: ConnectorContext): Connector;
}
