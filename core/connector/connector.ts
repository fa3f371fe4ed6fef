import type { Delivery } from '../delivery/delivery.ts';
import type { JsonObject } from '../event/event.ts';

/** What became of one item. `reason` is shown to people: short, no secrets. */
export type DeliveryResult =
  | { readonly outcome: 'delivered'; readonly status?: number; readonly response?: string }
  | {
      readonly outcome: 'retry';
      readonly reason: string;
      readonly status?: number;
      readonly response?: string;
      /** What the destination asked for (`Retry-After`), ms. */
      readonly afterMs?: number;
      /** The connection was reset before an answer: one attempt more at once is worth it. */
      readonly reset?: boolean;
    }
  | {
      readonly outcome: 'dead';
      readonly reason: string;
      readonly status?: number;
      readonly response?: string;
    };

/** A configured place, as a connector sees it. Settings hold unsealed secrets: never log them. */
export interface ConnectorDestination {
  readonly id: string;
  readonly workspaceId: string;
  readonly version: number;
  readonly settings: JsonObject;
}

export interface DeliverOptions {
  readonly signal: AbortSignal;
}

/**
 * Knows how to speak to one kind of place.
 *
 * Promises: `deliver` answers for every delivery, in order; it never throws for what a destination does. It repeats
 * nothing by itself, save the parts of a batch that the place refused as a whole, and sends the delivery's id as
 * idempotency key wherever the place takes one.
 */
export interface Connector {
  /** Deliveries of one destination that one call may take. */
  batchSize(destination: ConnectorDestination): number;
  deliver(
    destination: ConnectorDestination,
    deliveries: readonly Delivery[],
    options: DeliverOptions,
  ): Promise<readonly DeliveryResult[]>;
  /** Releases connections and files. Idempotent. */
  close(): Promise<void>;
}

/** What a kind of destination tells about itself. */
export interface ConnectorDescription {
  readonly type: string;
  readonly title: string;
  readonly description: string;
  /** JSON Schema (draft 2020-12) of `settings` as a user writes them. */
  readonly settingsSchema: JsonObject;
  /** Names of settings that are sealed at rest and never leave through the API again. */
  readonly secrets: readonly string[];
  /**
   * Settings made at creation when absent, e.g. a signing secret; shown once. Gives all settings back, those that were
   * there unchanged. `random(n)` gives n random bytes.
   */
  generate?(settings: JsonObject, random: (bytes: number) => Uint8Array): JsonObject;
  /** What the schema cannot say: one message per fault, empty when fine. Paths are JSON pointers below `settings`. */
  check?(settings: JsonObject): readonly { readonly path: string; readonly message: string }[];
}

/** The kinds of destination there are, for the gateway (descriptions) and for deliver (connectors). */
export interface ConnectorCatalog {
  readonly descriptions: ReadonlyMap<string, ConnectorDescription>;
  /** The connector of a type, made at first use. Undefined for an unknown type. */
  connector(type: string): Connector | undefined;
  close(): Promise<void>;
}
