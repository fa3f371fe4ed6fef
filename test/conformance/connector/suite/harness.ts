import { type ConnectorsOptions, createConnectors } from '@tributary/connectors';
import {
  type Connector,
  type ConnectorCatalog,
  type ConnectorDescription,
  type ConnectorDestination,
  type Delivery,
  type DeliveryAttempt,
  type JsonObject,
  NO_LOGGER,
  NO_METRICS,
  newId,
} from '@tributary/core';
import type { FaultyProxy } from './faulty-proxy.ts';

/** The timeout of a call that a test lets expire, ms. */
export const TIMEOUT_MS = 400;

export const WORKSPACE_ID = '0192f0c1-7c7b-7d53-8a55-1d0c5f1e2a01';

/** One delivery as the destination received it. */
export interface ReceivedBody {
  readonly id: string;
  readonly type: string;
  readonly event: JsonObject;
  readonly rule_id: string;
  readonly destination_id: string;
  readonly attempt: number;
}

/** A destination of one kind, with controls for its failures. */
export interface ConnectorHarness {
  /** As a user would write them, with every setting. */
  readonly settings: JsonObject;
  /** Valid settings for a destination that can never accept a delivery. */
  readonly hopeless: JsonObject;
  readonly connectors: Partial<ConnectorsOptions>;
  /** False where a reader cannot determine the order of the calls. */
  readonly ordered: boolean;
  /** True where a repeated delivery leaves no second copy. */
  readonly idempotent: boolean;
  /** A connection test answers with the request that it sent. */
  readonly showsRequest?: boolean;
  /** For a destination reached over a network. */
  readonly network?: NetworkHarness;
  /** Everything received so far, in order where there is one. */
  received(): Promise<readonly ReceivedBody[]>;
  /** Makes it fail with a transient error; `mend` ends that. */
  fail(): Promise<void>;
  mend(): Promise<void>;
  close(): Promise<void>;
}

/** The timeout of a call that is answered, on a machine that others keep busy, ms. */
const PATIENT_MS = 30_000;

/**
 * For destinations that are real engines, on 127.0.0.1. Names resolve to nothing unless a test defines them.
 */
export const ENGINE_CONNECTORS: Partial<ConnectorsOptions> = {
  egressAllow: ['127.0.0.0/8'],
  timeoutMs: PATIENT_MS,
  resolve: () => Promise.reject(Object.assign(new Error('no such name'), { code: 'ENOTFOUND' })),
};

/** Fails loudly if a test that requires an engine runs without one. */
export function noEngine(name: string): never {
  throw new Error(`no ${name} in this run`);
}

/** A destination behind a proxy. */
export interface NetworkHarness {
  readonly proxy: FaultyProxy;
  /** Several calls use one connection. */
  readonly sharesConnections?: boolean;
  /** The settings of the same destination under another host: a name, or an address in the form of a URL. */
  at(host: string): JsonObject;
}

export function createTestConnectors(options: Partial<ConnectorsOptions> = {}) {
  return createConnectors({
    egressAllow: [],
    dataFolder: '/nonexistent/tributary',
    clock: Date.now,
    logger: NO_LOGGER,
    metrics: NO_METRICS,
    timeoutMs: PATIENT_MS,
    ...options,
  });
}

export function destination(settings: JsonObject): ConnectorDestination {
  return { id: newId(), workspaceId: WORKSPACE_ID, version: 1, settings };
}

/** The settings that the gateway stores for the settings a user wrote. */
export function completed(description: ConnectorDescription, settings: JsonObject): JsonObject {
  return description.generate?.(settings, (bytes) => new Uint8Array(bytes).fill(9)) ?? settings;
}

export function delivery(n = 0, attempts: readonly DeliveryAttempt[] = []): Delivery {
  const message_id = newId();
  return {
    id: newId(),
    workspace_id: WORKSPACE_ID,
    environment: 'production',
    destination_id: '0192f0c1-7c7b-7d53-8a55-1d0c5f1e2a02',
    rule_id: '0192f0c1-7c7b-7d53-8a55-1d0c5f1e2a03',
    message_id,
    index: 0,
    created_at: '2024-02-29T12:00:00.000Z',
    attempts,
    redrives: 0,
    event: {
      message_id,
      type: 'track',
      event: 'Order Placed',
      user_id: `user-${n}`,
      properties: { n, text: 'line\nbreak \u2028 é 🚀', __proto__: null },
      timestamp: '2024-02-29T12:00:00.000Z',
      received_at: '2024-02-29T12:00:00.000Z',
      environment: 'production',
      workspace_id: WORKSPACE_ID,
    },
  };
}

export function deliveries(count: number): readonly [Delivery, ...Delivery[]] {
  return [delivery(0), ...Array.from({ length: count - 1 }, (_, n) => delivery(n + 1))];
}

export const ATTEMPT: DeliveryAttempt = {
  at: '2024-02-29T12:00:01.000Z',
  outcome: 'retry',
  duration_ms: 3,
};

export const unhurried = { signal: new AbortController().signal };

export function connectorOf(connectors: Pick<ConnectorCatalog, 'connector'>, type: string): Connector {
  const connector = connectors.connector(type);
  if (connector === undefined) throw new Error(`no connector of type ${type}`);
  return connector;
}

export function descriptionOf(type: string): ConnectorDescription {
  const description = createTestConnectors().descriptions.get(type);
  if (description === undefined) throw new Error(`no connector of type ${type}`);
  return description;
}
