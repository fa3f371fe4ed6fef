import { type LogEntry, NO_LOGGER, NO_METRICS } from '@tributary/core';
import { openEventLog, readConfig } from '@tributary/infra';
import type { Tributary } from './running-tributary.ts';

/** All entries in a topic of a running Tributary, partition by partition. */
export function entriesOf(
  tributary: Pick<Tributary, 'environment'>,
  topic: string,
): Promise<readonly LogEntry[]> {
  return entriesIn(tributary, (name) => name === topic);
}

/** The same for several topics. */
export async function entriesIn(
  { environment }: Pick<Tributary, 'environment'>,
  isWanted: (topic: string) => boolean,
): Promise<readonly LogEntry[]> {
  const log = await openEventLog(readConfig(environment), {
    logger: NO_LOGGER,
    metrics: NO_METRICS,
    dropExpired: false,
  });
  try {
    const found: LogEntry[] = [];
    for (const [topic, { partitions }] of log.topics) {
      for (let partition = 0; isWanted(topic) && partition < partitions; partition++) {
        const end = await log.end(topic, partition);
        for (let from = 0; from < end; ) {
          const { entries, next } = await log.read(topic, partition, from);
          found.push(...entries);
          if (next === from) break;
          from = next;
        }
      }
    }
    return found;
  } finally {
    await log.close();
  }
}
