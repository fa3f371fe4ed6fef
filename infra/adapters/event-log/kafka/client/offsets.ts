import { groupByLeader, type TopicPartition } from './brokers.ts';
import type { KafkaClient } from './client.ts';

const READ_UNCOMMITTED = 0 as const;
const READ_COMMITTED = 1 as const;
/** Timestamps with a meaning of their own. */
const LATEST = -1 as const;
const EARLIEST = -2 as const;

/**
 * `end`: behind the last record; `first`: of the first record kept; `stable`: behind the last record that a read-committed
 * reader gets to.
 */
export async function offsetOf(
  client: KafkaClient,
  topic: string,
  partition: number,
  which: 'first' | 'end' | 'stable',
): Promise<number> {
  const listed = await client.listOffsets(
    { topic, partition },
    {
      isolationLevel: which === 'stable' ? READ_COMMITTED : READ_UNCOMMITTED,
      topics: [{ topic, partitions: [{ partition, timestamp: which === 'first' ? EARLIEST : LATEST }] }],
    },
  );
  return Number(listed[0]?.partitions[0]?.offset ?? 0);
}

/** The offset of the first record that its broker stamped at or after `ms`; the end where there is none. */
export async function offsetAt(
  client: KafkaClient,
  topic: string,
  partition: number,
  ms: number,
): Promise<number> {
  // Listed first: a record that is appended between the two requests is behind it.
  const end = await offsetOf(client, topic, partition, 'end');
  const listed = await client.listOffsets(
    { topic, partition },
    {
      isolationLevel: READ_UNCOMMITTED,
      // Negative times have special meanings.
      topics: [{ topic, partitions: [{ partition, timestamp: Math.max(0, Math.ceil(ms)) }] }],
    },
  );
  const found = Number(listed[0]?.partitions[0]?.offset ?? -1);
  return found < 0 ? end : found;
}

/** The broker's timestamp of the first record kept, epoch ms; undefined where there is none. */
export async function firstStamp(
  client: KafkaClient,
  topic: string,
  partition: number,
): Promise<number | undefined> {
  const listed = await client.listOffsets(
    { topic, partition },
    { isolationLevel: READ_UNCOMMITTED, topics: [{ topic, partitions: [{ partition, timestamp: 0 }] }] },
  );
  const stamp = Number(listed[0]?.partitions[0]?.timestamp ?? -1);
  return stamp < 0 ? undefined : stamp;
}

/** The stable ends of many partitions, with one request a broker. By `topic/partition`. */
export const stableEnds = (client: KafkaClient, partitions: readonly TopicPartition[]) =>
  offsetsOf(client, partitions, READ_COMMITTED, LATEST);

/** The ends of many partitions, records of open transactions included, with one request a broker. By `topic/partition`. */
export const appendedEnds = (client: KafkaClient, partitions: readonly TopicPartition[]) =>
  offsetsOf(client, partitions, READ_UNCOMMITTED, LATEST);

/** The first kept offsets of many partitions, with one request a broker. By `topic/partition`. */
export const firstOffsets = (client: KafkaClient, partitions: readonly TopicPartition[]) =>
  offsetsOf(client, partitions, READ_UNCOMMITTED, EARLIEST);

async function offsetsOf(
  client: KafkaClient,
  partitions: readonly TopicPartition[],
  isolationLevel: 0 | 1,
  timestamp: typeof EARLIEST | typeof LATEST,
): Promise<ReadonlyMap<string, number>> {
  const byLeader = await groupByLeader(client, partitions, (partition) => partition);
  const ends = new Map<string, number>();
  for (const led of byLeader.values()) {
    const [one] = led;
    if (!one) continue;
    const listed = await client.listOffsets(one, {
      isolationLevel,
      topics: [...Map.groupBy(led, ({ topic }) => topic)].map(([topic, of]) => ({
        topic,
        partitions: of.map(({ partition }) => ({ partition, timestamp })),
      })),
    });
    for (const { topic, partitions: answers } of listed)
      for (const { partition, offset } of answers) ends.set(`${topic}/${partition}`, Number(offset));
  }
  return ends;
}

/** The stored positions of a group, by `topic/partition`; the stages may be further. */
export async function storedOffsets(
  client: KafkaClient,
  groupId: string,
  partitions: readonly { readonly topic: string; readonly partition: number }[],
): Promise<ReadonlyMap<string, number>> {
  const byTopic = Map.groupBy(partitions, ({ topic }) => topic);
  const responses = await client.fetchOffsets(
    groupId,
    [...byTopic].map(([topic, of]) => ({ topic, partitions: of.map(({ partition }) => partition) })),
  );
  const stored = new Map<string, number>();
  for (const { topic, partitions: answers } of responses) {
    for (const { partition, offset } of answers) {
      if (Number(offset) >= 0) stored.set(`${topic}/${partition}`, Number(offset));
    }
  }
  return stored;
}
