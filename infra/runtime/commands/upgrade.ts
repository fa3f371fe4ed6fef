import { NO_METRICS } from '@tributary/core';
import { type Environment, readCommandConfig } from '../config/config.ts';
import { createLogger } from '../observability/logger.ts';
import { catchUp, startDeadline } from '../process/await-engines.ts';
import { CleanupStack, reportErrors } from '../process/lifecycle.ts';
import { useFolderOfServer } from '../process/usable-folder.ts';
import { nameInstallation } from '../wiring/installation.ts';
import { openCatalog, openEventLog } from '../wiring/ports/event-log.ts';

/**
 * `tributary upgrade`: finishes the upgrade of an installation to this release, once none of its processes is of an older
 * one. Writes to the catalog what older releases do not know and would stop at, so there is no way back to them. Without
 * effect where that was done. Running processes of this release need not stop.
 */
export async function upgrade(environment: Environment): Promise<number> {
  const config = readCommandConfig(environment);
  const logger = createLogger(config.logLevel, { part: 'upgrade' });
  const cleanup = new CleanupStack();
  return reportErrors('upgrade', async () => {
    try {
      useFolderOfServer(config, logger);
      const deadline = startDeadline(config.startTimeoutMs, logger);
      const log = cleanup.use(
        await openEventLog(config, { logger, metrics: NO_METRICS, dropExpired: false }),
      );
      const catalog = cleanup.use(openCatalog(config, { log, logger }));
      await catchUp(catalog, deadline);
      const known = catalog.state.installation;
      const text =
        known !== undefined
          ? `the installation ${known} is of this release already`
          : catalog.state.organizationCount === 0
            ? 'there is no installation yet: a new one is of this release from its first start'
            : `this is the installation ${await nameInstallation(catalog, deadline, 'operator:upgrade')} now: its stores are marked as each process starts next, and no older release can be gone back to`;
      process.stdout.write(`${text}\n`);
      return 0;
    } finally {
      await cleanup.close();
    }
  });
}
