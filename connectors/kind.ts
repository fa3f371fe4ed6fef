import type {
  ChildUser,
  Clock,
  Connector,
  ConnectorDescription,
  ConnectorDestination,
  Warehouse,
} from '@tributary/core';
import type { EgressGuard } from './egress/guard.ts';
import type { OAuthClients } from './oauth/providers.ts';

/** The dependencies of a connector. */
export interface ConnectorContext {
  /** All connections of connectors are opened through it. */
  readonly egress: EgressGuard;
  /** Connectors write files below this folder only. */
  readonly dataFolder: string;
  /** One call to a destination takes at most this long, ms. */
  readonly timeoutMs: number;
  readonly clock: Clock;
  /** How processes that run foreign code are started; default: as this process's user. */
  readonly children?: { readonly user: ChildUser; readonly wrapper: readonly string[] };
  /** Secrets of partners of vendors, by the names that the Segment pack has for them. */
  readonly partnerSecrets?: Readonly<Record<string, string>>;
  /** OAuth 2 clients of this installation, by the name of the service in `PROVIDERS`. */
  readonly oauthClients?: OAuthClients;
}

/**
 * One kind of destination. Its `connector.ts` holds the JSON Schema of the settings, their TypeScript type and the
 * description for people, then sending and the classification of failures. A driver that is costly to load is imported on
 * the first delivery, where it is adapted at length in `client.ts`.
 */
export interface ConnectorKind {
  readonly description: ConnectorDescription;
  create(context: ConnectorContext): Connector;
  /** Loads what the description reads, see `ConnectorCatalog.prepare`. Absent where nothing is to be loaded. */
  prepare?(context: ConnectorContext): Promise<void>;
  /** Ends what kinds share, after their connectors are closed. Idempotent. */
  close?(context: ConnectorContext): Promise<void>;
}

/**
 * One kind of warehouse: its loader opens it, so it has no connector. Its `settings.ts` holds the settings and the description,
 * its `engine.ts` the rest; with the driver it is loaded when the first warehouse is used.
 */
export interface WarehouseKind {
  readonly description: ConnectorDescription & { readonly isWarehouse: true };
  /** Connects at the first call. The caller closes it. */
  open(context: ConnectorContext, destination: ConnectorDestination): Warehouse;
}
