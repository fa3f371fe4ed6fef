import { setTimeout as sleep } from 'node:timers/promises';
import {
  type Catalog,
  type Fact,
  growthRefusal,
  iso,
  messageOf,
  NO_METRICS,
  type TopicSpec,
  type Verdict,
} from '@tributary/core';
import { InvalidArgumentError } from 'commander';
import {
  type KafkaLog,
  POSITIONS_TOPIC,
  positionsSpec,
  settingsOf,
} from '../adapters/event-log/kafka/index.ts';
import { type Environment, readConfig, readKafkaCommandConfig } from '../runtime/config/config.ts';
import type { Config } from '../runtime/config/settings.ts';
import { createLogger } from '../runtime/observability/logger.ts';
import { type StartDeadline, startDeadline, untilAvailable } from '../runtime/process/await-engines.ts';
import { OperatorError } from '../runtime/process/lifecycle.ts';
import { configuredTopics, openCatalogOfCommand, openOnKafka } from '../runtime/wiring/ports/event-log.ts';
import { counted, print, runCommand, tableText } from './command.ts';

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
  const config = wanted.length > 0 ? readConfig(environment) : readKafkaCommandConfig(environment);
  return runCommand('topics', config, async ({ logger, cleanup, deadline }) => {
    if (config.kafkaBrokers.length === 0)
      throw new OperatorError(
        'topics grow on Kafka alone: the log of one machine keeps the partitions it was made with (KAFKA_BROKERS is not set)',
      );
    const log = cleanup.use(await openOnKafka(config, { logger, metrics: NO_METRICS }));
    const created = await untilAvailable('creating the topics', deadline, () => log.createTopics());
    const catalog = cleanup.use(await openCatalogOfCommand(log, deadline));
    const growths = plannedGrowth(wanted, log.topics, config.prefix);
    process.stdout.write(report(log.topics, new Set(created), config.prefix));
    await addMissing(log, deadline);
    const { catalogStalenessMs } = config;
    await growTopics(growths, { log, catalog, deadline, catalogStalenessMs });
    const others = await untilAvailable('counting partitions', deadline, () => log.otherPartitions());
    for (const text of others) process.stderr.write(`warning  ${text}\n`);
    for (const [topic, { announced }] of catalog.state.layouts)
      if (announced !== undefined)
        process.stderr.write(
          `warning  the growth of ${topic} was begun and not finished: repeat \`tributary topics --partitions ${topic}=${announced}\`\n`,
        );
    const altered = await untilAvailable('altering the topics', deadline, () => log.alterTopics());
    for (const line of altered) print(`altered  ${line}`);
    const left = await untilAvailable('checking the topics', deadline, () => log.topicFaults());
    for (const { message } of left) process.stderr.write(`warning  ${message}\n`);
    return left.some(({ losesCatalog }) => losesCatalog) ? 1 : 0;
  });
}

/** A topic that was deleted and created again has the configured partitions, and its keys are in all that the catalog names. */
async function addMissing(log: KafkaLog, deadline: StartDeadline): Promise<void> {
  const inKafka = await untilAvailable('counting partitions', deadline, () => log.partitionsInKafka());
  for (const { name, partitions } of log.topics.values()) {
    if ((inKafka.get(name) ?? partitions) >= partitions) continue;
    await untilAvailable(`growing ${name}`, deadline, () => log.growTopic(name, partitions));
    print(`added    missing partitions of ${name}: ${partitions}`);
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
      `${created.has(name) ? 'created' : 'exists '}  ${prefix}${name}, ${counted(partitions, 'partition')}`,
  );
  return `${lines.join('\n')}\n`;
}

export type TopicFormat = 'table' | 'strimzi' | 'terraform';

interface TopicsToPrint {
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
  return tableText([['topic', 'partitions', 'replicas', 'settings'], ...rows]);
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

/** A topic, or all whose keys have an order, with its number of partitions. */
interface Wanted {
  readonly topic: string | 'all';
  readonly partitions: number;
}

interface Growth {
  readonly topic: string;
  readonly from: number;
  readonly to: number;
}

/** Parses `events.accepted=24,deliveries=24` or `24`, which means all topics whose keys have an order. */
export function parseGrowth(texts: readonly string[]): readonly Wanted[] {
  return texts
    .flatMap((text) => text.split(','))
    .map((text) => {
      const [, topic = 'all', count] = /^(?:([a-z0-9][a-z0-9._-]*)=)?(\d{1,6})$/.exec(text.trim()) ?? [];
      if (count === undefined)
        throw new InvalidArgumentError(
          `--partitions takes <topic>=<number>, or a number for all topics: not "${text}"`,
        );
      return { topic, partitions: Number(count) };
    });
}

/** The growths that lead there; those topics are left out that have the partitions. Refused as a whole, in one line. */
export function plannedGrowth(
  wanted: readonly Wanted[],
  topics: ReadonlyMap<string, TopicSpec>,
  prefix = '',
): readonly Growth[] {
  const to = new Map<string, number>();
  for (const { topic, partitions } of wanted) {
    const ordered = [...topics.values()].filter(
      ({ fixed, unordered }) => fixed !== true && unordered !== true,
    );
    for (const name of topic === 'all' ? ordered.map((spec) => spec.name) : [topic]) to.set(name, partitions);
  }
  return [...to].flatMap(([topic, partitions]) => {
    const spec =
      topics.get(topic) ?? topics.get(topic.startsWith(prefix) ? topic.slice(prefix.length) : topic);
    if (spec === undefined)
      throw new OperatorError(`no topic "${topic}": \`tributary topics --print\` lists them`);
    const refusal = growthRefusal(spec, spec.partitions, partitions);
    if (refusal !== undefined) throw new OperatorError(refusal);
    return spec.partitions === partitions
      ? []
      : [{ topic: spec.name, from: spec.partitions, to: partitions }];
  });
}

interface GrowTools {
  readonly log: KafkaLog;
  readonly catalog: Catalog;
  readonly deadline: StartDeadline;
  /** After so long a process that did not hear of the announcement appends no more, ms. */
  readonly catalogStalenessMs: number;
}

/** Beyond the staleness: the time of an append between reading the catalog and writing to the log, ms. */
const MARGIN_MS = 2_000;

/**
 * Grows topics: first in Kafka, where nothing uses the partitions yet; then an announcement in the catalog, from which on
 * appends of all processes agree on each layout; and when every process has heard of it or is not trusted any more, the
 * adoption. Each step may be repeated after a kill, and `growTopics` begins with the first.
 */
async function growTopics(growths: readonly Growth[], tools: GrowTools): Promise<void> {
  if (growths.length === 0) return;
  const { log, catalog, deadline, catalogStalenessMs } = tools;
  for (const { topic, to } of growths) {
    await untilAvailable(`growing ${topic}`, deadline, () => log.growTopic(topic, to));
    print(`added    partitions of ${topic} in Kafka: ${to}, not used yet`);
  }
  for (const { topic, from, to } of growths)
    await proposed(catalog, {
      ...factBase(topic),
      type: 'topic.growth_announced',
      data: { from, partitions: to },
    });
  const waitMs = catalogStalenessMs + MARGIN_MS;
  print(
    `waiting  ${Math.ceil(waitMs / 1_000)} s until every process has heard of it (TRIBUTARY_CATALOG_STALENESS)`,
  );
  await sleep(waitMs);
  for (const { topic, from, to } of growths) {
    await proposed(catalog, { ...factBase(topic), type: 'topic.grown', data: { partitions: to } });
    print(`grown    ${topic}: ${from} -> ${to} partitions`);
  }
}

function factBase(entity: string) {
  return {
    v: 1,
    entity,
    by: 'operator:topics',
    from: { address: '', request_id: '' },
    at: iso(Date.now()),
  } as const;
}

async function proposed(catalog: Catalog, fact: Fact): Promise<void> {
  const verdict: Verdict = await catalog.propose(fact);
  if (!verdict.applied)
    throw new OperatorError(
      `${fact.entity} was grown by another command meanwhile: \`tributary topics\` shows its partitions`,
    );
}
