import { declareTopics, NO_LOGGER, NO_METRICS } from '@tributary/core';
import { openLogCatalog } from '@tributary/infra/adapters/catalog/log';
import { openKafkaEventLog } from '@tributary/infra/adapters/event-log/kafka';
import { engines, freshPrefix } from '../../../helpers/engines.ts';
import { removeTopics } from '../../../helpers/kafka.ts';
import type { CatalogHarness } from '../suite/harness.ts';

const TOPICS = declareTopics({ partitions: 1, retentionMs: 60_000, retrySteps: [], dedicated: [] });

function brokers(): string {
  const found = engines();
  if (found === undefined) throw new Error('there is no Kafka');
  return found.kafkaBrokers;
}

/** The same catalog on the Kafka of the run. */
export const harness: CatalogHarness = {
  name: 'log on Kafka',
  module: import.meta.url,

  async create() {
    const prefix = freshPrefix();
    return { settings: prefix, dispose: () => removeTopics(brokers(), prefix) };
  },

  async openLog(prefix) {
    const log = await openKafkaEventLog({
      connection: { brokers: brokers().split(','), clientId: 'tests' },
      prefix,
      topics: TOPICS,
      logger: NO_LOGGER,
      metrics: NO_METRICS,
    });
    await log.createTopics();
    return log;
  },

  async open(log, options) {
    return openLogCatalog({ log, fetchWaitMs: 50, ...options });
  },
};
