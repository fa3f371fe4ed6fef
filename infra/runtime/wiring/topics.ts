import { declareTopics, type EventLog, receivedTopic, type TopicSpec, TributaryError } from '@tributary/core';
import type { Config } from '../config/settings.ts';
import { type StartDeadline, untilAvailable } from '../process/await-engines.ts';

/** The topics of this installation. Every process of it must be configured the same. */
export function configuredTopics(config: Config): ReadonlyMap<string, TopicSpec> {
  return declareTopics({
    partitions: config.partitions,
    retentionMs: config.retention,
    retryLabels: config.retrySchedule,
    dedicated: config.dedicatedTopics,
  });
}

/** Every topic that holds received events. */
export function receivedTopics(config: Config): readonly string[] {
  return [receivedTopic('production'), receivedTopic('development'), ...config.dedicatedTopics];
}

/** The catalog's topic is set up so that Kafka deletes facts of it: a process that went on would lose accounts and keys. */
export class CatalogAtRisk extends TributaryError {
  readonly code = 'catalog_at_risk';
  readonly retryable = false;
}

/**
 * Creates what is missing on Kafka, where this process may, and checks the settings of what is there: others may have
 * made it, or another configuration. The embedded log has its topics once it is open, and no such settings.
 * `CatalogAtRisk` where the catalog would be lost.
 */
export async function provideTopics(log: EventLog, config: Config, deadline: StartDeadline): Promise<void> {
  if (config.kafkaBrokers.length === 0) return;
  if (config.createTopics) await untilAvailable('creating the topics', deadline, () => log.createTopics());
  await checkTopics(log, deadline);
}

async function checkTopics(log: EventLog, deadline: StartDeadline): Promise<void> {
  const faults = await untilAvailable(
    'checking the topics',
    deadline,
    async () => (await log.topicFaults?.()) ?? [],
  );
  const fatal = faults.filter(({ losesCatalog }) => losesCatalog).map(({ message }) => message);
  if (fatal.length > 0)
    throw new CatalogAtRisk(
      `Kafka would delete the catalog: ${fatal.join('; ')}. Alter the topic, or have \`tributary topics\` do it, and start again`,
    );
  if (faults.length > 0)
    deadline.logger.warn(
      { faults: faults.map(({ message }) => message) },
      'Kafka is set up otherwise than Tributary is configured; `tributary topics` alters the topics',
    );
}
