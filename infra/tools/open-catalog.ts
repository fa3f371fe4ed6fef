import { type EventLog, type Logger, NO_METRICS } from '@tributary/core';
import type { Config } from '../runtime/config/settings.ts';
import type { CleanupStack } from '../runtime/process/lifecycle.ts';
import { openCatalog, openEventLog } from '../runtime/wiring/ports/event-log.ts';

/** The log and its catalog, which is not read yet, for a command that changes it. `cleanup` closes both. */
export async function openLogAndCatalog(
  config: Config,
  logger: Logger,
  cleanup: CleanupStack,
): Promise<{ readonly log: EventLog; readonly catalog: ReturnType<typeof openCatalog> }> {
  const log = cleanup.use(await openEventLog(config, { logger, metrics: NO_METRICS, dropExpired: false }));
  return { log, catalog: cleanup.use(openCatalog(config, { log, logger })) };
}
