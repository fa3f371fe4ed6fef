import { isUuid, NO_METRICS } from '@tributary/core';
import { InvalidArgumentError } from 'commander';
import type { Environment } from '../config/config.ts';
import { readCommandConfig } from '../config/roles.ts';
import { createLogger } from '../observability/logger.ts';
import { startDeadline, untilAvailable } from '../process/await-engines.ts';
import { CleanupStack } from '../process/cleanup-stack.ts';
import { makeFolderPrivate } from '../process/private-folder.ts';
import { reportErrors } from '../process/report-errors.ts';
import { installationOf } from '../wiring/installation.ts';
import { openCatalog } from '../wiring/ports/catalog.ts';
import { openEventLog } from '../wiring/ports/event-log.ts';
import { openStoreMarks } from '../wiring/ports/store-marks.ts';

export interface AdoptStoresOptions {
  readonly from: string;
}

/** What `--from` says for stores without a mark beside a new catalog. */
const UNMARKED = 'none';

/**
 * `tributary adopt-stores --from <id>|none`: marks the configured stores that belong to the installation `id` as this
 * one's, with all their data. Stores of yet another installation are left, with code 1. `none`: names the installation of
 * a new catalog although there is data already. Stop the processes that use the stores before.
 */
export async function adoptStores({ from }: AdoptStoresOptions, environment: Environment): Promise<number> {
  if (from !== UNMARKED && !isUuid(from))
    throw new InvalidArgumentError('--from must be the id of an installation, or none');
  const config = readCommandConfig(environment);
  const logger = createLogger(config.logLevel, { part: 'adopt-stores' });
  const cleanup = new CleanupStack();
  return reportErrors('adopt-stores', async () => {
    try {
      makeFolderPrivate(config.dataFolder, logger);
      const deadline = startDeadline(config.startTimeout, logger);
      const log = cleanup.use(
        await openEventLog(config, { logger, metrics: NO_METRICS, dropExpired: false }),
      );
      const catalog = cleanup.use(openCatalog(config, { log, logger }));
      const marks = await openStoreMarks(config, logger, (mark) => cleanup.use(mark));
      const id = await installationOf(config, { catalog, log, logger }, marks, deadline, from === UNMARKED);
      let code = 0;
      for (const mark of [marks.profiles, ...marks.others]) {
        const found = await untilAvailable(`reading the mark of ${mark.store}`, deadline, () => mark.read());
        const isMeant = found === from.toLowerCase();
        if (isMeant) await untilAvailable(`marking ${mark.store}`, deadline, () => mark.replace(id));
        const isOther = found !== undefined && found !== id && !isMeant;
        if (isOther) code = 1;
        const state = isMeant
          ? `was of ${found} and is of ${id} now`
          : isOther
            ? `is left: it is of ${found}`
            : found === undefined
              ? `has no mark: it is marked at the next start`
              : `is of ${id} already`;
        process.stdout.write(`${mark.store} ${state}\n`);
      }
      return code;
    } finally {
      await cleanup.close();
    }
  });
}
