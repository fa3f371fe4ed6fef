import { InvalidInput, LayoutMismatch, type Logger, type TopicSpec } from '@tributary/core';
import type { Admin, ITopicConfig, ITopicMetadata } from 'kafkajs';
import { pause } from '../stage-runner/work.ts';
import type { KafkaClient } from './client/client.ts';
import { type KafkaConnection, withKafkaAdmin } from './client/connection.ts';
import { protocolErrorOf } from './client/errors.ts';
import { stableEnds } from './client/offsets.ts';
import { POSITIONS_TOPIC } from './positions/recorded-positions.ts';

/** A record is at most a value of 1 MiB and its headers, or in `stages.dead` both once more as JSON within JSON. */
const MAX_BATCH_BYTES = 4 * 1024 * 1024;

/** A topic that is kept forever begins a segment a day, ms: few enough files for years. */
const FOREVER_SEGMENT_MS = 86_400_000;

/** Small, as only closed segments are compacted, bytes. */
const COMPACTED_SEGMENT_BYTES = 16 * 1024 * 1024;

/** `InvalidInput` for a topic that is not declared. */
export function specOf(topics: ReadonlyMap<string, TopicSpec>, topic: string): TopicSpec {
  const spec = topics.get(topic);
  if (!spec) throw new InvalidInput(`unknown topic "${topic}"`);
  return spec;
}

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
export interface SettingFault {
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

/** How long to wait for the leaders of created topics, ms. */
const LEADERS_WITHIN_MS = 30_000;

export interface CreateTopicsOptions {
  readonly connection: KafkaConnection;
  /** For requests to the leaders. */
  readonly client: KafkaClient;
  readonly topics: ReadonlyMap<string, TopicSpec>;
  /** The name of a topic in Kafka. */
  readonly nameOf: (topic: string) => string;
  /** Default 3, or the number of brokers where there are fewer. */
  readonly replicationFactor?: number;
  /** In place of what `settingsOf` says, until they are corrected. */
  readonly settings?: TopicSettings;
  readonly logger: Logger;
}

/**
 * Creates the declared topics that are missing and waits until all have leaders. Returns the names of those created.
 * `LayoutMismatch` when one has fewer partitions, or all of them more, `Unavailable` when Kafka does not answer.
 */
export async function createKafkaTopics(options: CreateTopicsOptions): Promise<readonly string[]> {
  const { connection, logger } = options;
  return withKafkaAdmin(connection, logger, 'making topics', async (admin) => {
    const created = await createMissing(admin, options);
    await checkLayout(admin, options);
    return created;
  });
}

async function createMissing(
  admin: Admin,
  { topics, nameOf, replicationFactor, settings, logger }: CreateTopicsOptions,
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
      topics: missing.map((spec) => topicOf(spec, nameOf(spec.name), replication, settings)),
    });
  } catch (thrown) {
    // Another process may have created a topic meanwhile.
    const faults = causesOf(thrown).filter((cause) => protocolErrorOf(cause) !== 'TOPIC_ALREADY_EXISTS');
    if (faults.length > 0) throw faults[0];
  }
  return missing.map(({ name }) => name);
}

function topicOf(
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

/** Metadata names leaders before they answer, so each gets a request. */
async function checkLayout(admin: Admin, { client, topics, nameOf }: CreateTopicsOptions): Promise<void> {
  const never = new AbortController().signal;
  const deadline = performance.now() + LEADERS_WITHIN_MS;
  for (;;) {
    try {
      const { topics: found } = await admin.fetchTopicMetadata({ topics: [...topics.keys()].map(nameOf) });
      const faults = layoutFaults(found, topics, nameOf);
      if (faults.length > 0) throw new LayoutMismatch(faults);
      const partitions = found.flatMap(({ name, partitions: of }) =>
        of.map(({ partitionId }) => ({ topic: name, partition: partitionId })),
      );
      await stableEnds(client, partitions);
      return;
    } catch (thrown) {
      const isSoon = /LEADER|UNKNOWN_TOPIC/.test(protocolErrorOf(thrown) ?? '');
      if (!isSoon || performance.now() > deadline) throw thrown;
      client.invalidateMetadata();
      await pause(50, never);
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
