import type { Logger, TopicFault, TopicSpec } from '@tributary/core';
import kafkajs, { type Admin } from 'kafkajs';
import { type KafkaConnection, withKafkaAdmin } from './client/connection.ts';
import { protocolErrorOf } from './client/errors.ts';
import { replicaFault, type SettingFault, settingFaults, type TopicSettings } from './topics.ts';

const { ConfigResourceTypes } = kafkajs;

/** The source of a setting that the topic itself has. */
const TOPIC_CONFIG = 1;

const MINUTE_MS = 60_000;

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
  /** The fault of its replicas. */
  readonly replicaFault: string | undefined;
  /** The topic's own settings. */
  readonly own: ReadonlyMap<string, string>;
  readonly faults: readonly SettingFault[];
  readonly actual: ReadonlyMap<string, string>;
}

/**
 * The faults in the settings of topics and brokers, e.g. of topics that others created. Without the right to read them
 * there is one fault that says so.
 */
export function topicFaults(checks: TopicChecks): Promise<readonly TopicFault[]> {
  const { connection, logger } = checks;
  return withKafkaAdmin(connection, logger, 'checking the settings of topics', async (admin) => {
    const faults = await allowed('the settings of topics', () => describe(admin, checks));
    const positions = await allowed('offsets.retention.minutes of a broker', () =>
      positionFaults(admin, checks),
    );
    return [...faults.flatMap((found) => ('message' in found ? [found] : inWords(found))), ...positions];
  });
}

/** Corrects the faulty settings of topics, leaves the others as they are, and describes what it altered. */
export function alterTopics(checks: TopicChecks): Promise<readonly string[]> {
  const { connection, logger } = checks;
  return withKafkaAdmin(connection, logger, 'altering the settings of topics', async (admin) => {
    const described = (await describe(admin, checks)).filter(({ faults }) => faults.length > 0);
    await alter(
      admin,
      described.map(({ name, own, faults }) => ({
        name,
        own,
        changes: faults.map(({ setting, should }) => [setting, should] as const),
      })),
    );
    return described.flatMap(({ name, faults }) =>
      faults.map(({ setting, is, should }) => `${name}, ${setting}: ${is} -> ${should}`),
    );
  });
}

/** Gives all topics these settings, and leaves their others as they are. */
export function setTopicSettings(checks: TopicChecks, settings: TopicSettings): Promise<void> {
  const { connection, logger } = checks;
  return withKafkaAdmin(connection, logger, 'altering the settings of topics', async (admin) => {
    const described = await describe(admin, checks);
    const changed = described
      .map(({ name, own, actual }) => ({
        name,
        own,
        changes: Object.entries(settings).filter(([setting, value]) => actual.get(setting) !== value),
      }))
      .filter(({ changes }) => changes.length > 0);
    await alter(admin, changed);
  });
}

interface Alteration {
  readonly name: string;
  readonly own: ReadonlyMap<string, string>;
  readonly changes: readonly (readonly [setting: string, value: string])[];
}

async function alter(admin: Admin, alterations: readonly Alteration[]): Promise<void> {
  if (alterations.length === 0) return;
  await admin.alterConfigs({
    validateOnly: false,
    // The request replaces all of a topic's own settings.
    resources: alterations.map(({ name, own, changes }) => ({
      type: ConfigResourceTypes.TOPIC,
      name,
      configEntries: [...new Map([...own, ...changes])].map(([setting, value]) => ({ name: setting, value })),
    })),
  });
}

/** The answer, or a fault where the right to read it is missing. */
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
  const { brokers } = await admin.describeCluster();
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
    const faults = settingFaults(spec, count, actual);
    return [{ spec, name, replicaFault: replicaFault(count, brokers.length, actual), own, faults, actual }];
  });
}

function inWords({ name, faults, replicaFault: ofReplicas }: Described): readonly TopicFault[] {
  return [
    ...faults.map(({ setting, is, should, losesForever }) => ({
      message: `${name}, ${setting}: ${is} instead of ${should}`,
      losesCatalog: losesForever,
    })),
    ...(ofReplicas === undefined ? [] : [{ message: `${name}, ${ofReplicas}`, losesCatalog: false }]),
  ];
}

/** A group without members keeps its positions for this long; records should not be kept for longer. */
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
