import type { EventLog } from '@tributary/core';
import type { Config } from '../config/settings.ts';
import { type Patience, whenAvailable } from '../process/patience.ts';

/** Creates what is missing on Kafka, where this process may. The embedded log has its topics once it is open. */
export async function provideTopics(log: EventLog, config: Config, patience: Patience): Promise<void> {
  if (config.kafkaBrokers.length === 0 || !config.createTopics) return;
  await whenAvailable('creating the topics', patience, () => log.createTopics());
}
