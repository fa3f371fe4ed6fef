import { LayoutMismatch, type Logger, type TopicSpec } from '@tributary/core';
import kafkajs, { type Admin, type ITopicConfig, type ITopicMetadata } from 'kafkajs';
import { pause } from '../stage-runner/waiting.ts';
import type { KafkaClient } from './client/client.ts';
import { clientOptions, type KafkaConnection } from './client/connection.ts';
import { connectionHint, protocolErrorOf, translateKafkaError } from './client/errors.ts';
import { stableEnds } from './client/offsets.ts';

/** A record is at most a value of 1 MiB and its headers, or in `stages.dead` both once more, as JSON inside of JSON. */
const MAX_BATCH_BYTES = 4 * 1024 * 1024;

/** A topic that is kept forever begins a segment a day, ms: few enough for years. */
const FOREVER_SEGMENT_MS = 86_400_000;

/** Replicas that survive the loss of one broker while another is being restarted. */
const SAFE_REPLICATION = 3;

/** How long leaders are waited for after topics were made, ms. */
const LEADERS_WITHIN_MS = 30_000;

export interface CreateTopicsOptions {
  readonly connection: KafkaConnection;
  /** To ask the leaders. */
  readonly client: KafkaClient;
  readonly topics: ReadonlyMap<string, TopicSpec>;
  /** The name of a topic in Kafka. */
  readonly nameOf: (topic: string) => string;
  /** Default 3, or the number of brokers where there are fewer. */
  readonly replicationFactor?: number;
  readonly logger: Logger;
}

/**
 * Makes the declared topics that are missing and waits until all have leaders. The names of those made, as declared.
 * `LayoutMismatch` when one has another number of partitions, `Unavailable` when Kafka does not answer.
 */
export async function createKafkaTopics(options: CreateTopicsOptions): Promise<readonly string[]> {
  const { connection, logger } = options;
  const kafka = new kafkajs.Kafka({
    ...clientOptions(connection),
    requestTimeout: 30_000,
    retry: { retries: 2, initialRetryTime: 100 },
    logCreator:
      () =>
      ({ namespace, log }) =>
        logger.debug({ of: namespace }, `kafkajs: ${log.message}`),
  });
  const admin = kafka.admin();
  try {
    await admin.connect();
    const created = await createMissing(admin, options);
    await checkLayout(admin, options);
    return created;
  } catch (thrown) {
    throw translateKafkaError(thrown, 'making topics', connectionHint(connection));
  } finally {
    await admin.disconnect().catch(() => {});
  }
}

async function createMissing(
  admin: Admin,
  { topics, nameOf, replicationFactor, logger }: CreateTopicsOptions,
): Promise<readonly string[]> {
  const there = new Set(await admin.listTopics());
  const missing = [...topics.values()].filter(({ name }) => !there.has(nameOf(name)));
  if (missing.length === 0) return [];
  const { brokers } = await admin.describeCluster();
  const replication = replicationFactor ?? Math.min(SAFE_REPLICATION, brokers.length);
  if (replication < SAFE_REPLICATION) {
    logger.warn(
      { replication, brokers: brokers.length },
      'TOPICS ARE MADE WITH FEWER THAN THREE REPLICAS: the loss of a broker can lose acknowledged events',
    );
  }
  try {
    // With `waitForLeaders` parallel starts crash each other.
    await admin.createTopics({
      waitForLeaders: false,
      topics: missing.map((spec) => topicOf(spec, nameOf(spec.name), replication)),
    });
  } catch (thrown) {
    // Where a topic is there by now another process was faster.
    const faults = causesOf(thrown).filter((cause) => protocolErrorOf(cause) !== 'TOPIC_ALREADY_EXISTS');
    if (faults.length > 0) throw faults[0];
  }
  return missing.map(({ name }) => name);
}

function topicOf(spec: TopicSpec, topic: string, replicationFactor: number): ITopicConfig {
  const settings = {
    'cleanup.policy': 'delete',
    // The broker's clock is one for all, and a writer's wrong one is not refused.
    'message.timestamp.type': 'LogAppendTime',
    'retention.ms': spec.retentionMs === 'forever' ? '-1' : String(spec.retentionMs),
    'retention.bytes': '-1',
    // What a rewrite drops stays on disk until its segment is closed.
    ...(spec.retentionMs === 'forever' ? { 'segment.ms': String(FOREVER_SEGMENT_MS) } : {}),
    'max.message.bytes': String(MAX_BATCH_BYTES),
    // Whatever the cluster's is: a broker takes all batches apart to compress them, and readers again.
    'compression.type': 'producer',
    'unclean.leader.election.enable': 'false',
    ...(replicationFactor >= SAFE_REPLICATION ? { 'min.insync.replicas': '2' } : {}),
  };
  return {
    topic,
    numPartitions: spec.partitions,
    replicationFactor,
    configEntries: Object.entries(settings).map(([name, value]) => ({ name, value })),
  };
}

/** kafkajs tells what is wrong with several topics by an error that holds others, and itself says nothing. */
function causesOf(thrown: unknown): readonly unknown[] {
  return thrown instanceof Error && 'errors' in thrown && Array.isArray(thrown.errors)
    ? thrown.errors
    : [thrown];
}

/** Leaders are named before they answer, so each is asked for something. */
async function checkLayout(admin: Admin, { client, topics, nameOf }: CreateTopicsOptions): Promise<void> {
  const never = new AbortController().signal;
  const giveUpAt = performance.now() + LEADERS_WITHIN_MS;
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
      if (!isSoon || performance.now() > giveUpAt) throw thrown;
      client.lookAgain();
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
  return [...topics.values()]
    .filter(({ name, partitions }) => counts.get(nameOf(name)) !== partitions)
    .map(
      ({ name, partitions }) =>
        `topic ${nameOf(name)} has ${counts.get(nameOf(name))} partitions, not ${partitions}`,
    );
}
