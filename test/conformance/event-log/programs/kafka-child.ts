import { setTimeout } from 'node:timers/promises';
import { declareTopics, NO_LOGGER, NO_METRICS } from '@tributary/core';
import { openKafkaEventLog } from '@tributary/infra/adapters/event-log/kafka';
import { tell } from '../../../helpers/child.ts';
import { batchStage, copyOf } from '../suite/stages.ts';

/**
 * A member of the group of a test's stage, in a process of its own.
 * `kafka-child.ts <brokers> <prefix> <partitions>`
 */
const [brokers = '', prefix = '', partitions = ''] = process.argv.slice(2);

const log = await openKafkaEventLog({
  connection: { brokers: brokers.split(','), clientId: 'tests' },
  prefix,
  topics: declareTopics({
    partitions: Number(partitions),
    retentionMs: 3_600_000,
    retrySteps: ['10s'],
    dedicated: [],
  }),
  metrics: NO_METRICS,
  logger: NO_LOGGER,
  sessionTimeoutMs: 2_000,
  backoff: { firstMs: 5, capMs: 100 },
});
/** Reports each batch, and holds it for a moment. */
const holding = batchStage(async ({ entries }) => {
  tell({ holds: entries.map(({ value }) => value) });
  await setTimeout(200);
  return entries.map((entry) => copyOf(entry));
});
await (await log.run(holding)).ended;
