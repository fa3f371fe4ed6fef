import { join } from 'node:path';
import type { EventLog, Logger } from '@tributary/core';
import {
  openLogCatalog,
  type RewritableCatalog,
  removeSnapshots,
} from '../../../adapters/catalog/log/index.ts';
import type { Config } from '../../config/settings.ts';

export interface CatalogTools {
  readonly log: EventLog;
  readonly logger: Logger;
}

/**
 * The catalog, a fold over its topic in whatever log there is. It is ready for as long as it is trusted: a silent log
 * takes no gateway out of its load balancer while calls are still answered, and a gateway that has to answer every call
 * with 503 does not stay in.
 */
export function openCatalog(config: Config, { log, logger }: CatalogTools): RewritableCatalog {
  const { catalogStaleness, retention: retentionMs } = config;
  return openLogCatalog({
    log,
    logger,
    staleAfterMs: catalogStaleness,
    snapshot: { file: snapshotFile(config), retentionMs },
  });
}

/** Removes the snapshot of the data folder, and what is being written of another one or never was finished. */
export function removeSnapshot(config: Config): Promise<void> {
  return removeSnapshots(snapshotFile(config));
}

function snapshotFile({ dataFolder, prefix }: Config): string {
  return join(dataFolder, `${prefix}catalog.snapshot`);
}
