import { NO_METRICS, type TopicSpec } from '@tributary/core';
import { InvalidArgumentError } from 'commander';
import { positionsSpec } from '../../adapters/event-log/kafka/index.ts';
import { type Environment, readConfig } from '../config/config.ts';
import { readClusterConfig } from '../config/roles.ts';
import { createLogger } from '../observability/logger.ts';
import { startDeadline, untilAvailable } from '../process/await-engines.ts';
import { reportErrors } from '../process/report-errors.ts';
import { openOnKafka } from '../wiring/ports/event-log.ts';
import { configuredTopics } from '../wiring/topics.ts';
import { type TopicFormat, textOfTopics } from './topics-text.ts';

export interface TopicsOptions {
  readonly print?: true;
  readonly format?: TopicFormat;
  readonly cluster?: string;
}

/**
 * `tributary topics`: creates the declared topics that are missing, alters settings of others that Tributary cannot do
 * with, and prints one line a topic and alteration. With `--print`, which asks no Kafka, it prints what is declared, for
 * people (`--format table`) or for tools that make topics (`strimzi`, `terraform`). Code 1 where Kafka does not answer in
 * time, has topics that do not fit the configuration, or still has a setting that loses records.
 */
export async function makeTopics(options: TopicsOptions, environment: Environment): Promise<number> {
  if (options.print === true) return printTopics(options, environment);
  if (options.format !== undefined || options.cluster !== undefined)
    throw new InvalidArgumentError('--format and --cluster need --print');
  const config = readClusterConfig(environment);
  const logger = createLogger(config.logLevel, { part: 'topics' });
  return reportErrors('topics', async () => {
    const log = await openOnKafka(config, { logger, metrics: NO_METRICS });
    const deadline = startDeadline(config.startTimeout, logger);
    try {
      const created = await untilAvailable('creating the topics', deadline, () => log.createTopics());
      process.stdout.write(report(log.topics, new Set(created), config.prefix));
      const altered = await untilAvailable('altering the topics', deadline, () => log.alterTopics());
      for (const line of altered) process.stdout.write(`altered  ${line}\n`);
      const left = await untilAvailable('checking the topics', deadline, () => log.topicFaults());
      for (const { message } of left) process.stderr.write(`warning  ${message}\n`);
      return left.some(({ losesCatalog }) => losesCatalog) ? 1 : 0;
    } finally {
      await log.close();
    }
  });
}

function printTopics(
  { format = 'table', cluster = 'my-cluster' }: TopicsOptions,
  environment: Environment,
): number {
  const config = readConfig(environment);
  const declared = configuredTopics(config);
  const topics = [...declared.values(), positionsSpec(declared)];
  const { prefix, replication } = config;
  process.stdout.write(textOfTopics(format, { topics, prefix, replicas: replication ?? 3, cluster }));
  return 0;
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
