import { NO_METRICS, type TopicSpec } from '@tributary/core';
import { InvalidArgumentError } from 'commander';
import { positionsSpec, settingsOf } from '../../adapters/event-log/kafka/index.ts';
import { type Environment, readClusterConfig, readConfig } from '../config/config.ts';
import { createLogger } from '../observability/logger.ts';
import { startDeadline, untilAvailable } from '../process/await-engines.ts';
import { reportErrors } from '../process/lifecycle.ts';
import { configuredTopics, openOnKafka } from '../wiring/ports/event-log.ts';

export interface TopicsOptions {
  readonly print?: true;
  readonly format?: TopicFormat;
  readonly cluster?: string;
}

/**
 * `tributary topics`: creates missing topics, corrects settings of the others that Tributary cannot work with, and prints
 * a line for each topic and change. With `--print`, which needs no Kafka, it prints the declared topics, for people
 * (`--format table`) or for tools (`strimzi`, `terraform`). Exit code 1 if Kafka does not answer in time, has topics that do
 * not match the configuration, or still has a setting that loses records.
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

export type TopicFormat = 'table' | 'strimzi' | 'terraform';

export interface TopicsToPrint {
  readonly topics: readonly TopicSpec[];
  /** Prefix of the names in Kafka. */
  readonly prefix: string;
  readonly replicas: number;
  /** The Kafka resource that the topics of Strimzi belong to. */
  readonly cluster: string;
}

/** The declared topics as text, for people or for tools that create topics. */
export function textOfTopics(format: TopicFormat, all: TopicsToPrint): string {
  switch (format) {
    case 'table':
      return table(all);
    case 'strimzi':
      return `${all.topics.map((spec) => strimzi(spec, all)).join('---\n')}`;
    case 'terraform':
      return `${all.topics.map((spec) => terraform(spec, all)).join('\n')}`;
  }
}

function table({ topics, prefix, replicas }: TopicsToPrint): string {
  const rows = topics.map((spec) => [
    `${prefix}${spec.name}`,
    String(spec.partitions),
    String(replicas),
    Object.entries(settingsOf(spec, replicas))
      .map(([name, value]) => `${name}=${value}`)
      .join(' '),
  ]);
  const all = [['topic', 'partitions', 'replicas', 'settings'], ...rows];
  const widths = [0, 1, 2].map((column) => Math.max(...all.map((row) => row[column]?.length ?? 0)));
  const lines = all.map((row) => row.map((cell, i) => cell.padEnd(widths[i] ?? 0)).join('  '));
  return `${lines.join('\n')}\n`;
}

function strimzi(spec: TopicSpec, { prefix, replicas, cluster }: TopicsToPrint): string {
  const topic = `${prefix}${spec.name}`;
  const settings = Object.entries(settingsOf(spec, replicas)).map(
    ([name, value]) => `    ${name}: ${JSON.stringify(value)}`,
  );
  return [
    'apiVersion: kafka.strimzi.io/v1beta2',
    'kind: KafkaTopic',
    'metadata:',
    `  name: ${resourceName(topic)}`,
    '  labels:',
    `    strimzi.io/cluster: ${cluster}`,
    'spec:',
    `  topicName: ${JSON.stringify(topic)}`,
    `  partitions: ${spec.partitions}`,
    `  replicas: ${replicas}`,
    '  config:',
    ...settings,
    '',
  ].join('\n');
}

/** A name in Kubernetes: lower-case letters, digits, dots and hyphens. The topic's own name is in `topicName`. */
function resourceName(topic: string): string {
  return topic
    .toLowerCase()
    .replace(/[^a-z0-9.-]/g, '-')
    .replace(/^[.-]+|[.-]+$/g, '');
}

/** For the provider Mongey/kafka. */
function terraform(spec: TopicSpec, { prefix, replicas }: TopicsToPrint): string {
  const topic = `${prefix}${spec.name}`;
  const settings = Object.entries(settingsOf(spec, replicas)).map(
    ([name, value]) => `    ${JSON.stringify(name)} = ${JSON.stringify(value)}`,
  );
  return [
    `resource "kafka_topic" "${spec.name.replace(/[^A-Za-z0-9_]/g, '_')}" {`,
    `  name               = ${JSON.stringify(topic)}`,
    `  partitions         = ${spec.partitions}`,
    `  replication_factor = ${replicas}`,
    '  config = {',
    ...settings,
    '  }',
    '}',
    '',
  ].join('\n');
}
