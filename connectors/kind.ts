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
 * One kind of destination. Its folder holds `settings.ts` (the JSON Schema of the settings, their TypeScript type and
 * the description for people) and `connector.ts` (the kind, sending, and the classification of failures). A driver that
 * is costly to load is in `client.ts`, which `connector.ts` imports on the first delivery.
 */
export interface ConnectorKind {
  readonly description: ConnectorDescription;
  create(context: ConnectorContext): Connector;
}
