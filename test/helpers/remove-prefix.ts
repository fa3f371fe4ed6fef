import { Redis } from 'ioredis';
import { Kafka, logLevel } from 'kafkajs';
import { removeIndices } from './elasticsearch.ts';
import { engines } from './engines.ts';

/** Removes every topic, consumer group, Redis key and index of a prefix from the engines of the run. */
export async function removePrefix(prefix: string): Promise<void> {
  const found = engines();
  if (found === undefined) return;
  await removeFromKafka(found.kafkaBrokers.split(','), prefix);
  await removeFromRedis(found.redisUrl, prefix);
  await removeIndices(found.elasticsearchUrl, prefix);
}

async function removeFromKafka(brokers: string[], prefix: string): Promise<void> {
  const admin = new Kafka({ brokers, clientId: 'tests', logLevel: logLevel.NOTHING }).admin();
  await admin.connect();
  try {
    const topics = (await admin.listTopics()).filter((name) => name.startsWith(prefix));
    if (topics.length > 0) await admin.deleteTopics({ topics });
    const { groups } = await admin.listGroups();
    const ours = groups.map(({ groupId }) => groupId).filter((id) => id.startsWith(prefix));
    // The members of killed processes stay until their session ends: such a group is left to expire by itself.
    if (ours.length > 0) await admin.deleteGroups(ours).catch(() => {});
  } finally {
    await admin.disconnect();
  }
}

async function removeFromRedis(url: string, prefix: string): Promise<void> {
  const redis = new Redis(url);
  try {
    for await (const keys of redis.scanStream({ match: `${prefix}*`, count: 1_000 })) {
      if ((keys as string[]).length > 0) await redis.unlink(keys as string[]);
    }
  } finally {
    redis.disconnect();
  }
}
