import { NO_LOGGER, NO_METRICS } from '@tributary/core';
import { openEventLog, readConfig } from '@tributary/infra';
import type { Installation } from './installation.ts';

/**
 * The number of entries of a topic in an installation's log: all that was stored, whether or not it was
 * acknowledged.
 */
export async function countEntries({ env }: Pick<Installation, 'env'>, topic: string): Promise<number> {
  const tools = { logger: NO_LOGGER, metrics: NO_METRICS, dropExpired: false };
  const log = await openEventLog(readConfig(env), tools);
  try {
    let stored = 0;
    for (let partition = 0; partition < (log.topics.get(topic)?.partitions ?? 0); partition++) {
      for (let from = 0; ; ) {
        const { entries, next } = await log.read(topic, partition, from, { maxBytes: 8 * 1024 * 1024 });
        stored += entries.length;
        if (next === from) break;
        from = next;
      }
    }
    return stored;
  } finally {
    await log.close();
  }
}
