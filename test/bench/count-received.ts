import { join } from 'node:path';
import { NO_LOGGER, NO_METRICS, receivedTopic } from '@tributary/core';
import { configuredTopics, openSqliteEventLog, readConfig } from '@tributary/infra';

/** How many received events a data folder holds: what was stored, whatever was answered. */
export async function countReceived(dataFolder: string): Promise<number> {
  const topics = configuredTopics(readConfig({}));
  const log = await openSqliteEventLog({
    folder: join(dataFolder, 'log'),
    topics,
    logger: NO_LOGGER,
    metrics: NO_METRICS,
    retentionEveryMs: false,
  });
  const topic = receivedTopic('production');
  let stored = 0;
  for (let partition = 0; partition < (topics.get(topic)?.partitions ?? 0); partition++) {
    for (let from = 0; ; ) {
      const { entries, next } = await log.read(topic, partition, from, { maxBytes: 8 * 1024 * 1024 });
      stored += entries.length;
      if (next === from) break;
      from = next;
    }
  }
  await log.close();
  return stored;
}
