import { NO_METRICS } from '@tributary/core';
import { type Environment, readConfig } from '../config/config.ts';
import type { Config } from '../config/settings.ts';
import { createLogger } from '../observability/logger.ts';
import { catchUp, startDeadline } from '../process/await-engines.ts';
import { CleanupStack } from '../process/cleanup-stack.ts';
import { makeFolderPrivate } from '../process/private-folder.ts';
import { reportErrors } from '../process/report-errors.ts';
import { addKeyToFile, hasKeyFile } from '../secrets/key-file.ts';
import { type Rotation, rotateSecrets, secretsByKey } from '../secrets/rotation.ts';
import { type KeySettings, readKeyRing } from '../secrets/secrets.ts';
import { openCatalog } from '../wiring/ports/catalog.ts';
import { openEventLog } from '../wiring/ports/event-log.ts';

/**
 * `tributary secrets rotate`: seals every secret of the catalog under the first key, beside whatever runs, and says
 * what is left under the others. Where the keys are a file of the data folder, a new one is put first, unless a run
 * before this one did and was not finished.
 */
export async function rotateAllSecrets(environment: Environment): Promise<number> {
  const config = readConfig({ LOG_LEVEL: 'warn', ...environment });
  const keys = { ...config, devIssuer: config.devIssuer || hasKeyFile(config.dataFolder) };
  readKeyRing(keys); // a fault of the keys is told before anything is opened
  const cleanup = new CleanupStack();
  return reportErrors('secrets', async () => {
    try {
      const rotation = await rotate(config, keys, cleanup);
      process.stdout.write(describe(rotation, [...readKeyRing(keys).keys()]));
      return 0;
    } finally {
      await cleanup.close();
    }
  });
}

async function rotate(config: Config, keys: KeySettings, cleanup: CleanupStack): Promise<Rotation> {
  const logger = createLogger(config.logLevel, { part: 'secrets' });
  makeFolderPrivate(config.dataFolder, logger);
  const log = cleanup.use(await openEventLog(config, { logger, metrics: NO_METRICS, dropExpired: false }));
  const catalog = cleanup.use(openCatalog(config, { log, logger }));
  await catchUp(catalog, startDeadline(config.startTimeout, logger));
  if (keys.secretKeys === '') {
    const [first] = readKeyRing(keys).keys();
    const isUnfinished = [...secretsByKey(catalog.state).keys()].some((kid) => kid !== first);
    if (!isUnfinished) addKeyToFile(keys.dataFolder);
  }
  return rotateSecrets({ catalog, ring: readKeyRing(keys), clock: Date.now });
}

/** What an operator has to know before an old key may go. */
function describe({ resealed, under }: Rotation, kids: readonly string[]): string {
  const [first = '', ...old] = kids;
  const lines = [
    `${resealed} ${resealed === 1 ? 'destination' : 'destinations'} sealed anew under ${first}`,
    ...old.map((kid) => {
      const left = under.get(kid) ?? 0;
      return left === 0
        ? `${kid}: nothing is sealed under it; it may go once every process has ${first} first and this was run again`
        : `${kid}: ${left} sealed under it by processes that do not have ${first} first yet; run this again`;
    }),
    ...(old.length === 0 ? [`${first} is the only key: put a new one before it to rotate`] : []),
  ];
  return `${lines.join('\n')}\n`;
}
