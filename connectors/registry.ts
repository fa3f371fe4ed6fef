import {
  ChildUser,
  type Clock,
  type Confinement,
  type Connector,
  type ConnectorCatalog,
  InvalidInput,
  type Logger,
  type Metrics,
  NO_CONFINEMENT,
  type ServiceGrants,
} from '@tributary/core';
import { parseRanges } from './egress/address-ranges.ts';
import { createEgressGuard, createNameLookups, type Resolve } from './egress/guard.ts';
import { elasticsearch } from './elasticsearch/connector.ts';
import { kafka } from './kafka/connector.ts';
import type { ConnectorKind } from './kind.ts';
import { mysql } from './mysql/connector.ts';
import { ndjson } from './ndjson/connector.ts';
import { createGrants } from './oauth/grants.ts';
import { type OAuthClients, PROVIDERS } from './oauth/providers.ts';
import { postgres } from './postgres/connector.ts';
import { redis } from './redis/connector.ts';
import { s3 } from './s3/connector.ts';
import { DEFINITIONS, PARTNER_SECRETS, segmentKinds, serviceOf } from './segment/connector.ts';
import { WAREHOUSE_KINDS } from './warehouses/kinds.ts';
import { webhook } from './webhook/connector.ts';

/** Kinds of destinations, without those of the Segment pack. A new kind is a folder and a line here. */
export const OWN_KINDS: readonly ConnectorKind[] = [
  webhook,
  ndjson,
  kafka,
  redis,
  elasticsearch,
  postgres,
  mysql,
  s3,
];

export interface ConnectorsOptions {
  /** Address ranges (CIDRs) that connections may go to although they are not public. */
  readonly egressAllow: readonly string[];
  /** Connectors write files below this folder only. */
  readonly dataFolder: string;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** One call to a destination takes at most this long, ms. Default 10,000. */
  readonly timeoutMs?: number;
  /** Name resolution. Default: name servers and the hosts file of the system. */
  readonly resolve?: Resolve;
  /** Secrets of partners of vendors, by the names that the Segment pack has for them. Default: none. */
  readonly partnerSecrets?: Readonly<Record<string, string>>;
  /** OAuth 2 clients of this installation, by the name of the service in `PROVIDERS`. Default: none. */
  readonly oauthClients?: OAuthClients;
  /** How processes that run foreign code are confined. Default: by Node's permission model alone. */
  readonly confinement?: Confinement;
}

/**
 * Creates connectors on first use. Throws `InvalidInput` when `egressAllow` holds an invalid range, `partnerSecrets` a name
 * that no destination reads, or `oauthClients` one of no service.
 */
export function createConnectors(
  options: ConnectorsOptions,
): ConnectorCatalog & { readonly grants: ServiceGrants } {
  const { dataFolder, clock, logger, metrics, timeoutMs = 10_000, resolve = createNameLookups() } = options;
  const { partnerSecrets = {}, oauthClients = {} } = options;
  const unknown = Object.keys(partnerSecrets).find((name) => !PARTNER_SECRETS.includes(name));
  if (unknown !== undefined)
    throw new InvalidInput(`no destination reads ${unknown}; known are ${PARTNER_SECRETS.join(', ')}`);
  const stranger = Object.keys(oauthClients).find((name) => !Object.hasOwn(PROVIDERS, name));
  if (stranger !== undefined)
    throw new InvalidInput(
      `no destination connects to ${stranger}; known are ${Object.keys(PROVIDERS).join(', ')}`,
    );
  const egress = createEgressGuard({ allowed: parseRanges(options.egressAllow), resolve, metrics });
  const { uid, wrapper } = options.confinement ?? NO_CONFINEMENT;
  const isRoot = process.getuid?.() === 0;
  const user = new ChildUser({ uid, isRoot, children: 'the Segment pack', logger });
  const children = { user, wrapper };
  const context = { egress, dataFolder, timeoutMs, clock, children, partnerSecrets, oauthClients };
  const offered = [...OWN_KINDS, ...segmentKinds(partnerSecrets, oauthClients)];
  const definitions = new Map(DEFINITIONS.map((definition) => [definition.type, definition]));
  const grants = createGrants(context, (type) => {
    const definition = definitions.get(type);
    return definition && serviceOf(definition, oauthClients);
  });
  const kinds = new Map(offered.map((kind) => [kind.description.type, kind]));
  const warehouses = new Map(WAREHOUSE_KINDS.map((kind) => [kind.description.type, kind]));
  const described = [...offered, ...WAREHOUSE_KINDS].map(({ description }) => description);
  const made = new Map<string, Connector>();
  let closed = false;

  return {
    descriptions: new Map(described.map((description) => [description.type, description])),

    connector(type) {
      const known = made.get(type);
      if (known !== undefined) return known;
      const kind = kinds.get(type);
      if (kind === undefined) return undefined;
      const connector = kind.create(context);
      if (closed) void connector.close();
      made.set(type, connector);
      return connector;
    },

    grants,

    prepare: async (type) => kinds.get(type)?.prepare?.(context),

    warehouse: (type, destination) => warehouses.get(type)?.open(context, destination),

    async close() {
      closed = true;
      await Promise.all([...made.values(), grants].map((one) => one.close()));
      await Promise.all([...kinds.values()].map((kind) => kind.close?.(context)));
    },
  };
}
