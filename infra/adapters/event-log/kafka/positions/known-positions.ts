import type { TopicSpec } from '@tributary/core';
import type { KafkaClient } from '../client/client.ts';
import { appendedEnds, storedOffsets } from '../client/offsets.ts';
import type { RecordedPositions, StagePartition } from './recorded-positions.ts';

/** A partition of a stage with what is known of its position. */
export interface KnownPosition extends StagePartition {
  /** Of the consumer group. */
  readonly stored: number | undefined;
  /** Of the topic of positions. */
  readonly recorded: number | undefined;
  readonly end: number;
}

interface Sources {
  readonly client: KafkaClient;
  readonly positions: RecordedPositions;
  readonly topics: ReadonlyMap<string, TopicSpec>;
  /** The name of a topic or a group in Kafka. */
  readonly nameOf: (name: string) => string;
}

/** All partitions of the topics of which a stage has a position, in its group or recorded, by stage and topic. */
export async function knownPositions(
  stages: readonly string[],
  { client, positions, topics, nameOf }: Sources,
): Promise<readonly KnownPosition[]> {
  await positions.read();
  const all = [...topics.values()].flatMap(({ name, partitions }) =>
    Array.from({ length: partitions }, (_, partition) => ({ topic: name, partition })),
  );
  const inKafka = all.map(({ topic, partition }) => ({ topic: nameOf(topic), partition }));
  const ends = await appendedEnds(client, inKafka);
  const known: KnownPosition[] = [];
  for (const stage of stages) {
    const stored = await storedOffsets(client, nameOf(stage), inKafka);
    const rows = all.map(({ topic, partition }) => {
      const key = `${nameOf(topic)}/${partition}`;
      const recorded = positions.of({ stage, topic, partition })?.offset;
      return { stage, topic, partition, stored: stored.get(key), recorded, end: ends.get(key) ?? 0 };
    });
    for (const ofTopic of Map.groupBy(rows, ({ topic }) => topic).values())
      if (ofTopic.some((row) => row.stored !== undefined || row.recorded !== undefined))
        known.push(...ofTopic);
  }
  return known;
}
