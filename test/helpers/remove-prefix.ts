import { removeIndices } from './elasticsearch.ts';
import { engines } from './engines.ts';
import { removeTopics, withAdmin } from './kafka.ts';
import { removeKeys } from './redis.ts';

/** Removes every topic, consumer group, Redis key and index of a prefix from the engines of the run. */
export async function removePrefix(prefix: string): Promise<void> {
  const found = engines();
  if (found === undefined) return;
  await removeTopics(found.kafkaBrokers, prefix);
  await removeGroups(found.kafkaBrokers, prefix);
  await removeKeys(found.redisUrl, prefix);
  await removeIndices(found.elasticsearchUrl, prefix);
}

async function removeGroups(brokers: string, prefix: string): Promise<void> {
  await withAdmin(brokers, async (admin) => {
    const { groups } = await admin.listGroups();
    const ours = groups.map(({ groupId }) => groupId).filter((id) => id.startsWith(prefix));
    // Members of killed processes stay until their session ends: such a group is left to expire.
    if (ours.length > 0) await admin.deleteGroups(ours).catch(() => {});
  });
}
