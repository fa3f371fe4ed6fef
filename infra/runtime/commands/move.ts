import { existsSync } from 'node:fs';
import { type Environment, readConfig } from '../config/config.ts';
import { moveInstallation } from '../move/move.ts';
import { createLogger } from '../observability/logger.ts';
import { lockFolder } from '../process/data-folder.ts';
import { OperatorError, reportErrors } from '../process/lifecycle.ts';
import { refuseFolderOfOther } from '../process/usable-folder.ts';

export interface MoveCommandOptions {
  readonly check?: true;
  readonly forgetDeletions?: true;
}

const TARGET = 'the engines that the data folder is moved to are Kafka, Redis and Elasticsearch';

/**
 * `tributary move [--check] [--forget-deletions]`: moves the installation in the data folder, which no process may use, to
 * Kafka, Redis and Elasticsearch. Killed at any moment, it continues when it is called again.
 */
export async function move(
  { check, forgetDeletions }: MoveCommandOptions,
  environment: Environment,
): Promise<number> {
  const config = readConfig(
    { LOG_LEVEL: 'warn', ...environment },
    { kafkaBrokers: TARGET, redisUrl: TARGET, elasticsearchUrl: TARGET },
  );
  const logger = createLogger(config.logLevel, { part: 'move' });
  return reportErrors('move', async () => {
    const { dataFolder } = config;
    if (!existsSync(dataFolder)) throw new OperatorError(`${dataFolder} does not exist`);
    refuseFolderOfOther(dataFolder);
    const lock = lockFolder(dataFolder);
    try {
      return await moveInstallation(
        config,
        {
          checkOnly: check === true,
          forgetDeletions: forgetDeletions === true,
          print: (line) => process.stdout.write(`${line}\n`),
        },
        logger,
      );
    } finally {
      lock.release();
    }
  });
}
