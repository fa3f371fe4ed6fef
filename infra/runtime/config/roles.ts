import type { Logger } from '@tributary/core';
import { type Environment, readConfig } from './config.ts';
import type { Config } from './settings.ts';

/** The defaults of `tributary dev`: a developer's own machine is not a place to protect from itself. */
const DEV_DEFAULTS = {
  TRIBUTARY_DEV_ISSUER: '1',
  TRIBUTARY_EGRESS_ALLOW: '127.0.0.0/8',
  LOG_LEVEL: 'warn',
  TRIBUTARY_DRAIN: '0s',
} as const;

export function readDevConfig(environment: Environment): Config {
  return readConfig({ ...DEV_DEFAULTS, ...environment });
}

/** The configuration of a role that is one of several processes on one Kafka. */
export function readClusterConfig(environment: Environment): Config {
  return readConfig(environment, {
    kafkaBrokers:
      'the processes of an installation meet on Kafka (without it, tributary dev runs everything in one)',
  });
}

/** The configuration of a command beside the processes of an installation: without Kafka that is `tributary dev`. */
export function readCommandConfig(environment: Environment): Config {
  const config = readConfig({ LOG_LEVEL: 'warn', ...environment });
  return config.kafkaBrokers.length > 0 ? config : readDevConfig(environment);
}

/** Warns of stores that are in the data folder although the processes of an installation may run on several machines. */
export function warnOfSharedFolder(
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
