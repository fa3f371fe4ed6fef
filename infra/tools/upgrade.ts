import { type Environment, readCommandConfig } from '../runtime/config/config.ts';
import { createLogger } from '../runtime/observability/logger.ts';
import { catchUp, startDeadline } from '../runtime/process/await-engines.ts';
import { useFolderOfServer } from '../runtime/process/data-folder.ts';
import { CleanupStack, reportErrors } from '../runtime/process/lifecycle.ts';
import { nameInstallation } from '../runtime/wiring/installation.ts';
import { openLogAndCatalog } from './catalog.ts';

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
      const { catalog } = await openLogAndCatalog(config, logger, cleanup);
      await catchUp(catalog, deadline);
      const { installation: known, refersToRecords } = catalog.state;
      const text =
        known !== undefined && refersToRecords
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
