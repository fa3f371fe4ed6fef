import { messageOf, NO_METRICS, type TopicSpec } from '@tributary/core';
import { InvalidArgumentError } from 'commander';
import {
  type KafkaLog,
  POSITIONS_TOPIC,
  positionsSpec,
  settingsOf,
} from '../../adapters/event-log/kafka/index.ts';
import { type Environment, readClusterConfig, readConfig } from '../config/config.ts';
import type { Config } from '../config/settings.ts';
import { createLogger } from '../observability/logger.ts';
import { type StartDeadline, startDeadline, untilAvailable } from '../process/await-engines.ts';
import { OperatorError, reportErrors } from '../process/lifecycle.ts';
import { configuredTopics, openCatalogOfCommand, openOnKafka } from '../wiring/ports/event-log.ts';
import { growTopics, parseGrowth, plannedGrowth } from './grow-topics.ts';

export interface TopicsOptions {
  readonly print?: true;
  readonly format?: TopicFormat;
  readonly cluster?: string;
  /** See `parseGrowth`. */
  readonly partitions?: readonly string[];
}

/**
 * `tributary topics`: creates missing topics, corrects settings of the others that Tributary cannot work with, and prints
 * a line for each topic and change. With `--partitions` it grows topics beside running processes. With `--print`, which
 * needs no Kafka but shows grown topics only with it, it prints the declared topics, for people
 * (`--format table`) or for tools (`strimzi`, `terraform`). Exit code 1 if Kafka does not answer in time, has topics that do
 * not match the configuration, or still has a setting that loses records.
 */
export async function makeTopics(options: TopicsOptions, environment: Environment): Promise<number> {
  const wanted = parseGrowth(options.partitions ?? []);
  if (options.print === true) {
    if (wanted.length > 0) throw new InvalidArgumentError('--partitions and --print do not go together');
    return printTopics(options, environment);
  }
  if (options.format !== undefined || options.cluster !== undefined)
    throw new InvalidArgumentError('--format and --cluster need --print');
  if (wanted.length > 0 && readConfig(environment).kafkaBrokers.length === 0)
    return reportErrors('topics', async () => {
      throw new OperatorError(
        'topics grow on Kafka alone: the log of one machine keeps the partitions it was made with (KAFKA_BROKERS is not set)',
      );
    });
  const config = readClusterConfig(environment);
  const logger = createLogger(config.logLevel, { part: 'topics' });
  return reportErrors('topics', async () => {
    const log = await openOnKafka(config, { logger, metrics: NO_METRICS });
    const deadline = startDeadline(config.startTimeoutMs, logger);
    try {
      const created = await untilAvailable('creating the topics', deadline, () => log.createTopics());
      const catalog = await openCatalogOfCommand(log, deadline);
      try {
        const growths = plannedGrowth(wanted, log.topics, config.prefix);
        process.stdout.write(report(log.topics, new Set(created), config.prefix));
        await addMissing(log, deadline, print);
        await growTopics(growths, {
          log,
          catalog,
          deadline,
          catalogStalenessMs: config.catalogStalenessMs,
          print,
        });
        const others = await untilAvailable('counting partitions', deadline, () => log.otherPartitions());
        for (const text of others) process.stderr.write(`warning  ${text}\n`);
        for (const [topic, { announced }] of catalog.state.layouts)
          if (announced !== undefined)
            process.stderr.write(
              `warning  the growth of ${topic} was begun and not finished: repeat \`tributary topics --partitions ${topic}=${announced}\`\n`,
            );
      } finally {
        await catalog.close();
      }
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

const print = (line: string) => process.stdout.write(`${line}\n`);

/** A topic that was deleted and created again has the configured partitions, and its keys are in all that the catalog names. */
async function addMissing(
  log: KafkaLog,
  deadline: StartDeadline,
  report: (line: string) => void,
): Promise<void> {
  const inKafka = await untilAvailable('counting partitions', deadline, () => log.partitionsInKafka());
  for (const { name, partitions } of log.topics.values()) {
    if ((inKafka.get(name) ?? partitions) >= partitions) continue;
    await untilAvailable(`growing ${name}`, deadline, () => log.growTopic(name, partitions));
    report(`added    missing partitions of ${name}: ${partitions}`);
  }
}

/** The declared topics; with the layouts of the catalog where Kafka is configured and answers. */
async function declaredTopics(config: Config): Promise<ReadonlyMap<string, TopicSpec>> {
  const declared = configuredTopics(config);
  const all = new Map([...declared, [POSITIONS_TOPIC, positionsSpec(declared)]]);
  if (config.kafkaBrokers.length === 0) return all;
  const logger = createLogger('fatal', { part: 'topics' });
  const log = await openOnKafka(config, { logger, metrics: NO_METRICS });
  try {
    const catalog = await openCatalogOfCommand(log, startDeadline(PRINT_WITHIN_MS, logger));
    await catalog.close();
    return log.topics;
  } catch (error) {
    process.stderr.write(
      `warning  the partitions are the configured ones: the catalog cannot be read (${messageOf(error)})\n`,
    );
    return all;
  } finally {
    await log.close();
  }
}

/** How long printing waits for Kafka, ms. */
const PRINT_WITHIN_MS = 10_000;

async function printTopics(
  { format = 'table', cluster = 'my-cluster' }: TopicsOptions,
  environment: Environment,
): Promise<number> {
  const config = readConfig(environment);
  const topics = [...(await declaredTopics(config)).values()];
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
