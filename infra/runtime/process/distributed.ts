import type { Logger } from '@tributary/core';
import { type Environment, readConfig } from '../config/config.ts';
import type { Config } from '../config/settings.ts';

/** The configuration of a role that is one of several processes on one Kafka. */
export function readDistributedConfig(environment: Environment): Config {
  return readConfig(environment, {
    kafkaBrokers:
      'the processes of an installation meet on Kafka (without it, tributary dev runs everything in one)',
  });
}

/** Says what an operator has to see to beside a configuration that is fine by itself. */
export function tellOfSharedFolder(
  { redisUrl, elasticsearchUrl, dataFolder: folder }: Config,
  logger: Logger,
): void {
  if (elasticsearchUrl === undefined) {
    logger.warn(
      { folder },
      'ELASTICSEARCH_URL is not set: profiles and history are kept in this folder, which all processes must share',
    );
  }
  if (redisUrl === undefined) {
    logger.warn(
      { folder },
      'REDIS_URL is not set: counts and message ids are kept in this folder, which all processes must share',
    );
  }
}
