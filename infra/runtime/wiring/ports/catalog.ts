import { join } from 'node:path';
import type { EventLog, Logger } from '@tributary/core';
import {
  openLogCatalog,
  type RewritableCatalog,
  removeSnapshots,
} from '../../../adapters/catalog/log/index.ts';
import type { Config } from '../../config/settings.ts';

/** A process that heard nothing of the log for this long says that it is not ready, ms. */
const READY_WITHIN_MS = 15_000;

export interface CatalogTools {
  readonly log: EventLog;
  readonly logger: Logger;
}

/** The catalog, a fold over its topic in whatever log there is. */
export function openCatalog(config: Config, { log, logger }: CatalogTools): RewritableCatalog {
  const { catalogStaleness, retention: retentionMs } = config;
  return openLogCatalog({
    log,
    logger,
    staleAfterMs: Math.min(READY_WITHIN_MS, catalogStaleness),
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
