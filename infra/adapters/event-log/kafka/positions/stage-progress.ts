import type { StageProgress, StageReads, TopicSpec } from '@tributary/core';
import type { KafkaClient } from '../client/client.ts';
import { appendedEnds, firstOffsets, storedOffsets } from '../client/offsets.ts';

interface Sources {
  readonly client: KafkaClient;
  readonly topics: ReadonlyMap<string, TopicSpec>;
  /** The name of a topic or a group in Kafka. */
  readonly nameOf: (name: string) => string;
}

/**
 * Where stages are, by the brokers: two requests to the coordinator of each stage's group, and two to each broker for the
 * first offsets and the ends of all topics.
 */
export async function stageProgress(
  stages: readonly StageReads[],
  { client, topics, nameOf }: Sources,
): Promise<readonly StageProgress[]> {
  const partitionsOf = (topic: string) =>
    Array.from({ length: topics.get(topic)?.partitions ?? 0 }, (_, partition) => ({ topic, partition }));
  const inKafka = (of: readonly { readonly topic: string; readonly partition: number }[]) =>
    of.map(({ topic, partition }) => ({ topic: nameOf(topic), partition }));
  const read = new Set(stages.flatMap((stage) => stage.topics));
  const all = inKafka([...read].flatMap(partitionsOf));
  // Positions first: a position that is read before the end is never above it.
  const stored = await Promise.all(
    stages.map(async ({ stage, topics: reads }) => ({
      positions: await storedOffsets(client, nameOf(stage), inKafka(reads.flatMap(partitionsOf))),
      members: await client.countMembers(nameOf(stage)),
    })),
  );
  const [firsts, ends] = await Promise.all([firstOffsets(client, all), appendedEnds(client, all)]);
  return stages.map(({ stage, topics: reads }, i) => ({
    stage,
    members: stored[i]?.members,
    partitions: reads.flatMap(partitionsOf).map(({ topic, partition }) => {
      const key = `${nameOf(topic)}/${partition}`;
      const position = stored[i]?.positions.get(key);
      return { topic, partition, first: firsts.get(key) ?? 0, position, end: ends.get(key) ?? 0 };
    }),
  }));
}
