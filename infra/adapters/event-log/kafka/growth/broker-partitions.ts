import { setTimeout as sleep } from 'node:timers/promises';
import { type TopicSpec, TributaryError } from '@tributary/core';
import type { KafkaClient } from '../client/client.ts';
import { withKafkaAdmin } from '../client/connection.ts';
import { protocolErrorOf } from '../client/errors.ts';
import { appendedEnds } from '../client/offsets.ts';
import type { TopicChecks } from '../topic-checks.ts';

/** How long to wait until the brokers lead the added partitions, ms. */
const LEADERS_WITHIN_MS = 30_000;
const LEADERS_EVERY_MS = 200;

/** The partitions of each declared topic in Kafka; a topic that is missing there is left out. */
export function partitionsInKafka({
  connection,
  logger,
  topics,
  nameOf,
}: TopicChecks): Promise<ReadonlyMap<string, number>> {
  return withKafkaAdmin(connection, logger, 'counting partitions', async (admin) => {
    const there = new Set(await admin.listTopics());
    const names = new Map([...topics.keys()].map((topic) => [nameOf(topic), topic]));
    const asked = [...names.keys()].filter((name) => there.has(name));
    const { topics: found } = await admin.fetchTopicMetadata({ topics: asked });
    return new Map(found.map(({ name, partitions }) => [names.get(name) ?? name, partitions.length]));
  });
}

/** Adds partitions to a topic in Kafka up to this number, and waits until all have leaders. */
export async function growTopic(
  { connection, logger, nameOf }: TopicChecks,
  client: KafkaClient,
  topic: string,
  partitions: number,
): Promise<void> {
  const name = nameOf(topic);
  await withKafkaAdmin(connection, logger, `growing ${name}`, async (admin) => {
    const { topics } = await admin.fetchTopicMetadata({ topics: [name] });
    if ((topics[0]?.partitions.length ?? 0) >= partitions) return;
    try {
      await admin.createPartitions({ topicPartitions: [{ topic: name, count: partitions }] });
    } catch (thrown) {
      // Another process has added them meanwhile.
      if (protocolErrorOf(thrown) !== 'INVALID_PARTITIONS') throw thrown;
    }
  });
  const all = Array.from({ length: partitions }, (_, partition) => ({ topic: name, partition }));
  const deadline = performance.now() + LEADERS_WITHIN_MS;
  for (;;) {
    client.invalidateMetadata();
    try {
      await appendedEnds(client, all);
      return;
    } catch (thrown) {
      if (!(thrown instanceof TributaryError && thrown.retryable) || performance.now() > deadline)
        throw thrown;
      await sleep(LEADERS_EVERY_MS);
    }
  }
}

/** Where Kafka has another number of partitions than Tributary uses, as texts for operators. */
export function otherPartitions(
  topics: ReadonlyMap<string, TopicSpec>,
  inKafka: ReadonlyMap<string, number>,
  nameOf: (topic: string) => string,
): readonly string[] {
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
