import { join } from 'node:path';
import type { Catalog, EventLog, Logger } from '@tributary/core';
import { openLogCatalog } from '../../../adapters/catalog/log/index.ts';
import type { Config } from '../../config/settings.ts';

/** A process that heard nothing of the log for this long says that it is not ready, ms. */
const READY_WITHIN_MS = 15_000;

export interface CatalogTools {
  readonly log: EventLog;
  readonly logger: Logger;
}

/** The catalog, a fold over its topic in whatever log there is. */
export function openCatalog(
  { catalogStaleness, retention: retentionMs, dataFolder, prefix }: Config,
  { log, logger }: CatalogTools,
): Catalog {
  return openLogCatalog({
    log,
    logger,
    staleAfterMs: Math.min(READY_WITHIN_MS, catalogStaleness),
    snapshot: { file: join(dataFolder, `${prefix}catalog.snapshot`), retentionMs },
  });
}
