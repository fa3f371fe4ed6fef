import { setTimeout as sleep } from 'node:timers/promises';
import { LayoutMismatch, type Logger, messageOf, type TopicFault, type TopicSpec } from '@tributary/core';
import type { Admin, ITopicConfig, ITopicMetadata } from 'kafkajs';
import kafkajs from 'kafkajs';
import { type KafkaConnection, type TopicPartition, withKafkaAdmin } from './client/brokers.ts';
import { type KafkaClient, offsetsOf } from './client/client.ts';
import { protocolErrorOf } from './client/protocol.ts';

const { ConfigResourceTypes } = kafkajs;

/** The topics of an installation in Kafka, and how to reach them. */
export interface Installation {
  readonly connection: KafkaConnection;
  readonly client: KafkaClient;
  readonly topics: ReadonlyMap<string, TopicSpec>;
  /** The name of a topic or of a consumer group in Kafka. */
  readonly nameOf: (name: string) => string;
  readonly logger: Logger;
}

/** The partitions of a topic by its name without the prefix; none of a topic that is not declared. */
export function partitionsOf({ topics }: Pick<Installation, 'topics'>, topic: string) {
  const { partitions = 0 } = topics.get(topic) ?? {};
  return Array.from({ length: partitions }, (_, partition) => ({ topic, partition }));
}

/** A record is at most a value of 1 MiB and its headers, or in `stages.dead` both once more as JSON within JSON. */
const MAX_BATCH_BYTES = 4 * 1024 * 1024;

/** A topic that is kept forever begins a segment a day, ms: few enough files for years. */
const FOREVER_SEGMENT_MS = 86_400_000;

/** Small, as only closed segments are compacted, bytes. */
const COMPACTED_SEGMENT_BYTES = 16 * 1024 * 1024;

/** Replicas that survive the loss of one broker while another is being restarted. */
const SAFE_REPLICATION = 3;

/** By name, as brokers write them. */
export type TopicSettings = Readonly<Record<string, string>>;

/** The settings that a topic is created with. */
export function settingsOf(spec: TopicSpec, replicas: number): TopicSettings {
  return {
    'cleanup.policy': spec.compacted === true ? 'compact' : 'delete',
    // The broker's clock is one for all, and a writer's wrong one is not refused.
    'message.timestamp.type': 'LogAppendTime',
    'retention.ms': spec.retentionMs === 'forever' ? '-1' : String(spec.retentionMs),
    'retention.bytes': '-1',
    // Deleted records stay on disk until their segment is closed.
    ...(spec.retentionMs === 'forever' ? { 'segment.ms': String(FOREVER_SEGMENT_MS) } : {}),
    // Readers read all of it at their start: records that are not compacted yet are few.
    ...(spec.compacted === true
      ? { 'segment.bytes': String(COMPACTED_SEGMENT_BYTES), 'min.cleanable.dirty.ratio': '0.1' }
      : {}),
    'max.message.bytes': String(MAX_BATCH_BYTES),
    // Overrides the cluster's setting: to compress a batch the broker would decode it, and each reader again.
    'compression.type': 'producer',
    'unclean.leader.election.enable': 'false',
    ...(replicas >= SAFE_REPLICATION ? { 'min.insync.replicas': '2' } : {}),
  };
}

/** A setting of a topic that breaks a guarantee of the log. */
interface SettingFault {
  readonly setting: string;
  readonly is: string;
  readonly should: string;
  /** The topic is kept forever, and by this setting it is not. */
  readonly losesForever: boolean;
}

type Rule = (is: string, should: string) => boolean;

const differs: Rule = (is, should) => is !== should;
const isBelow: Rule = (is, should) => Number(is) < Number(should);

/** The settings that are checked, and when one is a fault; the operator chooses the others. */
const RULES: Readonly<Record<string, Rule>> = {
  'cleanup.policy': differs,
  'retention.ms': differs,
  'retention.bytes': differs,
  'max.message.bytes': isBelow,
  'message.timestamp.type': differs,
  'compression.type': differs,
  'unclean.leader.election.enable': differs,
  'min.insync.replicas': isBelow,
};

/** Settings by which a topic loses records. */
const LOSING = new Set(['cleanup.policy', 'retention.ms', 'retention.bytes']);

/** The faults in a topic's settings; a setting that the broker does not name is not checked. */
export function settingFaults(
  spec: TopicSpec,
  replicas: number,
  actual: ReadonlyMap<string, string>,
): readonly SettingFault[] {
  const isKeptForever = spec.retentionMs === 'forever' && spec.compacted !== true;
  // Retention by time and size does not apply to a topic that is only compacted.
  const isCompacted = spec.compacted === true && actual.get('cleanup.policy') === 'compact';
  return Object.entries(settingsOf(spec, replicas)).flatMap(([setting, should]) => {
    const is = actual.get(setting);
    if (is === undefined || RULES[setting]?.(is, should) !== true) return [];
    if (isCompacted && LOSING.has(setting)) return [];
    return [{ setting, is, should, losesForever: isKeptForever && LOSING.has(setting) }];
  });
}

/** The fault of a topic's replicas. `tributary topics` cannot alter them: Kafka moves replicas by a reassignment. */
export function replicaFault(
  replicas: number,
  brokers: number,
  actual: ReadonlyMap<string, string>,
): string | undefined {
  const should = Math.min(SAFE_REPLICATION, brokers);
  if (replicas < should)
    return `${replicas} replicas instead of ${should}: the loss of a broker can lose acknowledged records (kafka-reassign-partitions adds replicas)`;
  const needed = Number(actual.get('min.insync.replicas') ?? 1);
  if (needed < replicas || replicas === 1) return undefined;
  return `min.insync.replicas ${needed} of ${replicas} replicas: appends stop while any of their brokers is down`;
}

/** Where stages record their positions beside the consumer groups. */
export const POSITIONS_TOPIC = 'stages.positions';

/** The topic of positions, with as many partitions as the largest declared topic. */
export function positionsSpec(topics: ReadonlyMap<string, TopicSpec>): TopicSpec {
  const partitions = Math.max(1, ...[...topics.values()].map((spec) => spec.partitions));
  return {
    name: POSITIONS_TOPIC,
    partitions,
    packed: false,
    retentionMs: 'forever',
    compacted: true,
    fixed: true,
  };
}

/** How long to wait for the leaders of created topics and added partitions, ms. */
const LEADERS_WITHIN_MS = 30_000;

export interface CreateTopicsOptions {
  /** Default 3, or the number of brokers where there are fewer. */
  readonly replicationFactor?: number | undefined;
  /** In place of what `settingsOf` says, until they are corrected. */
  readonly settings?: TopicSettings;
}

/**
 * Creates the declared topics that are missing and waits until all have leaders. Returns the names of those created.
 * `LayoutMismatch` when one has fewer partitions, or all of them more, `Unavailable` when Kafka does not answer.
 */
export async function createKafkaTopics(
  installation: Installation,
  options: CreateTopicsOptions = {},
): Promise<readonly string[]> {
  return withKafkaAdmin(installation, 'making topics', async (admin) => {
    const created = await createMissing(admin, installation, options);
    await checkLayout(admin, installation);
    return created;
  });
}

async function createMissing(
  admin: Admin,
  { topics, nameOf, logger }: Installation,
  { replicationFactor, settings }: CreateTopicsOptions,
): Promise<readonly string[]> {
  const there = new Set(await admin.listTopics());
  const missing = [...topics.values()].filter(({ name }) => !there.has(nameOf(name)));
  if (missing.length === 0) return [];
  const { brokers } = await admin.describeCluster();
  const replication = replicationFactor ?? Math.min(SAFE_REPLICATION, brokers.length);
  if (replication < SAFE_REPLICATION) {
    logger.warn(
      { replication, brokers: brokers.length },
      'TOPICS ARE CREATED WITH FEWER THAN THREE REPLICAS: the loss of a broker can lose acknowledged events',
    );
  }
  try {
    // With `waitForLeaders` parallel starts crash each other.
    await admin.createTopics({
      waitForLeaders: false,
      topics: missing.map((spec) => configOf(spec, nameOf(spec.name), replication, settings)),
    });
  } catch (thrown) {
    // Another process may have created a topic meanwhile.
    const faults = causesOf(thrown).filter((cause) => protocolErrorOf(cause) !== 'TOPIC_ALREADY_EXISTS');
    if (faults.length > 0) throw faults[0];
  }
  return missing.map(({ name }) => name);
}

function configOf(
  spec: TopicSpec,
  topic: string,
  replicationFactor: number,
  settings: TopicSettings = {},
): ITopicConfig {
  return {
    topic,
    numPartitions: spec.partitions,
    replicationFactor,
    configEntries: Object.entries({ ...settingsOf(spec, replicationFactor), ...settings }).map(
      ([name, value]) => ({ name, value }),
    ),
  };
}

/** kafkajs wraps the errors of several topics in one without a message. */
function causesOf(thrown: unknown): readonly unknown[] {
  return thrown instanceof Error && 'errors' in thrown && Array.isArray(thrown.errors)
    ? thrown.errors
    : [thrown];
}

async function checkLayout(admin: Admin, { client, topics, nameOf }: Installation): Promise<void> {
  await untilLed(client, async () => {
    const { topics: found } = await admin.fetchTopicMetadata({ topics: [...topics.keys()].map(nameOf) });
    const faults = layoutFaults(found, topics, nameOf);
    if (faults.length > 0) throw new LayoutMismatch(faults);
    return found.flatMap(({ name, partitions: of }) =>
      of.map(({ partitionId }) => ({ topic: name, partition: partitionId })),
    );
  });
}

/** Waits until the partitions have leaders. Metadata names leaders before they answer, so each gets a request. */
async function untilLed(
  client: KafkaClient,
  partitions: () => Promise<readonly TopicPartition[]>,
): Promise<void> {
  const deadline = performance.now() + LEADERS_WITHIN_MS;
  for (;;) {
    try {
      await offsetsOf(client, await partitions(), 'stable');
      return;
    } catch (thrown) {
      const isSoon = /LEADER|UNKNOWN_TOPIC|no leader/.test(`${protocolErrorOf(thrown)} ${messageOf(thrown)}`);
      if (!isSoon || performance.now() > deadline) throw thrown;
      client.invalidateMetadata();
      await sleep(50);
    }
  }
}

function layoutFaults(
  found: readonly ITopicMetadata[],
  topics: ReadonlyMap<string, TopicSpec>,
  nameOf: (topic: string) => string,
): readonly string[] {
  const counts = new Map(found.map(({ name, partitions }) => [name, partitions.length]));
  const inKafka = ({ name }: TopicSpec) => counts.get(nameOf(name)) ?? 0;
  const all = [...topics.values()];
  const configured = all.filter(({ name, fixed }) => fixed !== true || name === POSITIONS_TOPIC);
  // A topic may have been grown, and the catalog, which says so, is not read yet. That all were is a changed setting.
  const isOther = configured.every((spec) => inKafka(spec) > spec.partitions);
  return all
    .filter((spec) => inKafka(spec) < spec.partitions || (isOther && configured.includes(spec)))
    .map((spec) => `topic ${nameOf(spec.name)} has ${inKafka(spec)} partitions, not ${spec.partitions}`);
}

/** The source of a setting that the topic itself has. */
const TOPIC_CONFIG = 1;

const MINUTE_MS = 60_000;

interface Described {
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
export function topicFaults(installation: Installation): Promise<readonly TopicFault[]> {
  return withKafkaAdmin(installation, 'checking the settings of topics', async (admin) => {
    const faults = await allowed('the settings of topics', () => describe(admin, installation));
    const positions = await allowed('offsets.retention.minutes of a broker', () =>
      positionFaults(admin, installation),
    );
    return [...faults.flatMap((found) => ('message' in found ? [found] : inWords(found))), ...positions];
  });
}

/** Corrects the faulty settings of topics, leaves the others as they are, and describes what it altered. */
export async function alterTopics(installation: Installation): Promise<readonly string[]> {
  const altered = await alter(installation, ({ faults }) =>
    faults.map(({ setting, should }) => [setting, should]),
  );
  return altered.flatMap(({ name, faults }) =>
    faults.map(({ setting, is, should }) => `${name}, ${setting}: ${is} -> ${should}`),
  );
}

/** Gives all topics these settings, and leaves their others as they are. */
export async function setTopicSettings(installation: Installation, settings: TopicSettings): Promise<void> {
  await alter(installation, ({ actual }) =>
    Object.entries(settings).filter(([setting, value]) => actual.get(setting) !== value),
  );
}

/** Returns the topics that had changes. */
function alter(
  installation: Installation,
  changesOf: (topic: Described) => readonly (readonly [setting: string, value: string])[],
): Promise<readonly Described[]> {
  return withKafkaAdmin(installation, 'altering the settings of topics', async (admin) => {
    const topics = (await describe(admin, installation)).filter((topic) => changesOf(topic).length > 0);
    if (topics.length === 0) return topics;
    await admin.alterConfigs({
      validateOnly: false,
      // The request replaces all of a topic's own settings.
      resources: topics.map((topic) => ({
        type: ConfigResourceTypes.TOPIC,
        name: topic.name,
        configEntries: [...new Map([...topic.own, ...changesOf(topic)])].map(([name, value]) => ({
          name,
          value,
        })),
      })),
    });
    return topics;
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

async function describe(admin: Admin, { topics, nameOf }: Installation): Promise<readonly Described[]> {
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
    return [{ name, replicaFault: replicaFault(count, brokers.length, actual), own, faults, actual }];
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
async function positionFaults(admin: Admin, { topics }: Installation): Promise<readonly TopicFault[]> {
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

/** The partitions of each declared topic in Kafka; a topic that is missing there is left out. */
export function partitionsInKafka(installation: Installation): Promise<ReadonlyMap<string, number>> {
  const { topics, nameOf } = installation;
  return withKafkaAdmin(installation, 'counting partitions', async (admin) => {
    const there = new Set(await admin.listTopics());
    const names = new Map([...topics.keys()].map((topic) => [nameOf(topic), topic]));
    const asked = [...names.keys()].filter((name) => there.has(name));
    const { topics: found } = await admin.fetchTopicMetadata({ topics: asked });
    return new Map(found.map(({ name, partitions }) => [names.get(name) ?? name, partitions.length]));
  });
}

/** Adds partitions to a topic in Kafka up to this number, and waits until all have leaders. */
export async function growTopic(
  installation: Installation,
  topic: string,
  partitions: number,
): Promise<void> {
  const { client, nameOf } = installation;
  const name = nameOf(topic);
  await withKafkaAdmin(installation, `growing ${name}`, async (admin) => {
    const { topics } = await admin.fetchTopicMetadata({ topics: [name] });
    if ((topics[0]?.partitions.length ?? 0) >= partitions) return;
    try {
      await admin.createPartitions({ topicPartitions: [{ topic: name, count: partitions }] });
    } catch (thrown) {
      // Another process has added them meanwhile.
      if (protocolErrorOf(thrown) !== 'INVALID_PARTITIONS') throw thrown;
    }
  });
  client.invalidateMetadata();
  await untilLed(client, async () =>
    Array.from({ length: partitions }, (_, partition) => ({ topic: name, partition })),
  );
}

/** Where Kafka has another number of partitions than Tributary uses, as texts for operators. */
export async function otherPartitions(installation: Installation): Promise<readonly string[]> {
  const { topics, nameOf } = installation;
  const inKafka = await partitionsInKafka(installation);
  return [...topics.values()].flatMap(({ name, partitions, fixed }) => {
    const there = inKafka.get(name) ?? partitions;
    if (there === partitions) return [];
    if (there < partitions)
      return [
        `${nameOf(name)} has ${there} partitions in Kafka and Tributary uses ${partitions}: \`tributary topics\` adds the missing ones`,
      ];
    const isMultiple = fixed !== true && there % partitions === 0;
    const how = isMultiple
      ? `\`tributary topics --partitions ${name}=${there}\` adopts them`
      : 'the others stay empty';
    return [`${nameOf(name)} has ${there} partitions in Kafka and Tributary uses ${partitions}: ${how}`];
  });
}
