import { NO_METRICS, type TopicSpec } from '@tributary/core';
import type { Environment } from '../command.ts';
import { createLogger } from '../observability/logger.ts';
import { readDistributedConfig } from '../process/distributed.ts';
import { startPatience, whenAvailable } from '../process/patience.ts';
import { tellingFaults } from '../process/telling-faults.ts';
import { noArguments } from '../usage-error.ts';
import { openEventLog } from '../wiring/ports/event-log.ts';

/**
 * `tributary topics`: creates the declared topics that are missing, and prints one line a topic. Code 1 where Kafka does
 * not answer in time, or has topics that do not fit the configuration.
 */
export async function makeTopics(args: readonly string[], environment: Environment): Promise<number> {
  noArguments(args);
  const config = readDistributedConfig(environment);
  const logger = createLogger(config.logLevel, { part: 'topics' });
  return tellingFaults('topics', async () => {
    const log = await openEventLog(config, { logger, metrics: NO_METRICS });
    try {
      const created = await whenAvailable(
        'creating the topics',
        startPatience(config.startTimeout, logger),
        () => log.createTopics(),
      );
      process.stdout.write(report(log.topics, new Set(created), config.prefix));
      return 0;
    } finally {
      await log.close();
    }
  });
}

function report(
  topics: ReadonlyMap<string, TopicSpec>,
  created: ReadonlySet<string>,
  prefix: string,
): string {
  const lines = [...topics.values()].map(
    ({ name, partitions }) =>
      `${created.has(name) ? 'created' : 'exists '}  ${prefix}${name}, ${partitions} ${partitions === 1 ? 'partition' : 'partitions'}`,
  );
  return `${lines.join('\n')}\n`;
}
