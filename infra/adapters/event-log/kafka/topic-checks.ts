import type { Logger, TopicFault, TopicSpec } from '@tributary/core';
import kafkajs, { type Admin } from 'kafkajs';
import { clientOptions, type KafkaConnection } from './client/connection.ts';
import { connectionHint, protocolErrorOf, translateKafkaError } from './client/errors.ts';
import { mendClientsOf } from './client/mended-connections.ts';
import { type SettingFault, settingFaults } from './topic-settings.ts';

const { ConfigResourceTypes } = kafkajs;

/** Set for the topic itself, not by its broker or by default. */
const TOPIC_CONFIG = 1;

const MINUTE_MS = 60_000;

/** Calls an admin client of kafkajs that is closed afterwards. Rejects as ports do. */
export async function withKafkaAdmin<T>(
  connection: KafkaConnection,
  logger: Logger,
  doing: string,
  work: (admin: Admin) => Promise<T>,
): Promise<T> {
  const kafka = new kafkajs.Kafka({
    ...clientOptions(connection),
    requestTimeout: 30_000,
    retry: { retries: 2, initialRetryTime: 100 },
    logCreator:
      () =>
      ({ namespace, log }) =>
        logger.debug({ of: namespace }, `kafkajs: ${log.message}`),
  });
  mendClientsOf(kafka);
  const admin = kafka.admin();
  try {
    await admin.connect();
    return await work(admin);
  } catch (thrown) {
    throw translateKafkaError(thrown, doing, connectionHint(connection));
  } finally {
    await admin.disconnect().catch(() => {});
  }
}

export interface TopicChecks {
  readonly connection: KafkaConnection;
  readonly topics: ReadonlyMap<string, TopicSpec>;
  /** The name of a topic in Kafka. */
  readonly nameOf: (topic: string) => string;
  readonly logger: Logger;
}

interface Described {
  readonly spec: TopicSpec;
  readonly name: string;
  readonly replicas: number;
  /** What the topic has of its own. */
  readonly own: ReadonlyMap<string, string>;
  readonly faults: readonly SettingFault[];
}

/**
 * What is wrong with the settings of the topics and of the brokers: others may have made them, or the configuration was
 * changed since. Where it may not ask, there is one fault that says so.
 */
export function topicFaults(checks: TopicChecks): Promise<readonly TopicFault[]> {
  const { connection, logger } = checks;
  return withKafkaAdmin(connection, logger, 'checking the settings of topics', async (admin) => {
    const faults = await allowed('the settings of topics', () => describe(admin, checks));
    const positions = await allowed('offsets.retention.minutes of a broker', () =>
      positionFaults(admin, checks),
    );
    return [
      ...faults.flatMap((found) => ('message' in found ? [found] : found.faults.map(inWords(found)))),
      ...positions,
    ];
  });
}

/** Alters the settings of topics that are wrong, and answers what it altered. Others of a topic stay as they are. */
export function alterTopics(checks: TopicChecks): Promise<readonly string[]> {
  const { connection, logger } = checks;
  return withKafkaAdmin(connection, logger, 'altering the settings of topics', async (admin) => {
    const described = (await describe(admin, checks)).filter(({ faults }) => faults.length > 0);
    if (described.length === 0) return [];
    await admin.alterConfigs({
      validateOnly: false,
      // The request takes the place of all that a topic has of its own.
      resources: described.map(({ name, own, faults }) => ({
        type: ConfigResourceTypes.TOPIC,
        name,
        configEntries: [
          ...new Map([...own, ...faults.map(({ setting, should }) => [setting, should] as const)]),
        ].map(([setting, value]) => ({ name: setting, value })),
      })),
    });
    return described.flatMap(({ name, faults }) =>
      faults.map(({ setting, is, should }) => `${name}, ${setting}: ${is} -> ${should}`),
    );
  });
}

/** What is asked for, or a fault where the rights for asking are missing. */
async function allowed<T>(
  what: string,
  ask: () => Promise<readonly T[]>,
): Promise<readonly (T | TopicFault)[]> {
  try {
    return await ask();
  } catch (thrown) {
    const type = protocolErrorOf(thrown);
    if (type?.includes('AUTHORIZATION') !== true) throw thrown;
    return [
      {
        message: `${what} are not known, as the right DescribeConfigs is missing (${type})`,
        losesCatalog: false,
      },
    ];
  }
}

async function describe(admin: Admin, { topics, nameOf }: TopicChecks): Promise<readonly Described[]> {
  const names = new Map([...topics.values()].map((spec) => [nameOf(spec.name), spec]));
  const metadata = await admin.fetchTopicMetadata({ topics: [...names.keys()] });
  const replicas = new Map(
    metadata.topics.map(({ name, partitions }) => [
      name,
      Math.min(...partitions.map((partition) => partition.replicas.length)),
    ]),
  );
  const { resources } = await admin.describeConfigs({
    includeSynonyms: false,
    resources: [...names.keys()].map((name) => ({ type: ConfigResourceTypes.TOPIC, name })),
  });
  return resources.flatMap(({ resourceName: name, configEntries }) => {
    const spec = names.get(name);
    if (spec === undefined) return [];
    const actual = new Map(configEntries.map(({ configName, configValue }) => [configName, configValue]));
    const own = new Map(
      configEntries
        .filter(({ configSource }) => Number(configSource) === TOPIC_CONFIG)
        .map(({ configName, configValue }) => [configName, configValue]),
    );
    const count = replicas.get(name) ?? 1;
    return [{ spec, name, replicas: count, own, faults: settingFaults(spec, count, actual) }];
  });
}

function inWords({ name }: Described) {
  return ({ setting, is, should, losesForever }: SettingFault): TopicFault => ({
    message: `${name}, ${setting}: ${is} instead of ${should}`,
    losesCatalog: losesForever,
  });
}

/** A group without members keeps its positions for this long; the topics' records must not outlive them. */
async function positionFaults(admin: Admin, { topics }: TopicChecks): Promise<readonly TopicFault[]> {
  const kept = Math.max(
    0,
    ...[...topics.values()].map(({ retentionMs }) => (retentionMs === 'forever' ? 0 : retentionMs)),
  );
  const { brokers } = await admin.describeCluster();
  const name = String(brokers[0]?.nodeId ?? 0);
  const { resources } = await admin.describeConfigs({
    includeSynonyms: false,
    resources: [{ type: ConfigResourceTypes.BROKER, name, configNames: ['offsets.retention.minutes'] }],
  });
  const minutes = Number(resources[0]?.configEntries[0]?.configValue ?? Number.NaN);
  if (!(minutes * MINUTE_MS < kept)) return [];
  return [
    {
      message: `offsets.retention.minutes of the brokers: ${minutes}, which is shorter than the topics keep records (${kept / MINUTE_MS} minutes): stages that are off for so long lose the positions of their groups`,
      losesCatalog: false,
    },
  ];
}
