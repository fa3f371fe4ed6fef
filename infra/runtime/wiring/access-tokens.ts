import { setTimeout as wait } from 'node:timers/promises';
import { AccessTokens } from '@tributary/connectors';
import type { Catalog, ConnectorDestination, Destination, Logger, ServiceGrants } from '@tributary/core';
import type { Secrets } from './secrets.ts';

interface AccessTools {
  readonly catalog: Catalog;
  readonly connectors: { readonly grants: ServiceGrants };
  readonly secrets: Secrets;
  readonly logger: Logger;
}

/** Opens destinations with the access tokens of their connections. Close it before the catalog and the connectors. */
export function openAccess({ catalog, connectors: { grants }, secrets, logger }: AccessTools): {
  unseal(destination: Destination): ConnectorDestination;
  close(): Promise<void>;
} {
  const { openTokens, sealTokens } = secrets;
  const clock = Date.now;
  const tokens = new AccessTokens({ catalog, grants, openTokens, sealTokens, clock, wait, logger });
  return {
    unseal(destination) {
      const opened = secrets.unseal(destination);
      const { id, connection } = destination;
      if (connection === undefined) return opened;
      const { settings: connected = {} } = connection;
      return { ...opened, connected, access: (refused) => tokens.access(id, refused) };
    },
    close: () => tokens.close(),
  };
}
