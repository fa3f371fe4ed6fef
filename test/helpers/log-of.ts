import { type LogEntry, NO_LOGGER, NO_METRICS } from '@tributary/core';
import { openEventLog, readConfig } from '@tributary/infra';
import type { Tributary } from './running-tributary.ts';

/** All entries in a topic of a running Tributary, partition by partition. */
export async function entriesOf(
  { environment }: Pick<Tributary, 'environment'>,
  topic: string,
): Promise<readonly LogEntry[]> {
  const log = await openEventLog(readConfig(environment), {
    logger: NO_LOGGER,
    metrics: NO_METRICS,
    dropExpired: false,
  });
  try {
    const found: LogEntry[] = [];
    for (let partition = 0; partition < (log.topics.get(topic)?.partitions ?? 0); partition++) {
      const end = await log.end(topic, partition);
      for (let from = 0; from < end; ) {
        const { entries, next } = await log.read(topic, partition, from);
        found.push(...entries);
        if (next === from) break;
        from = next;
      }
    }
    return found;
  } finally {
    await log.close();
  }
}
