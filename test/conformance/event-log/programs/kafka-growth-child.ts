import { NO_LOGGER, NO_METRICS } from '@tributary/core';
import { openLogCatalog } from '@tributary/infra/adapters/catalog/log';
import { openKafkaEventLog } from '@tributary/infra/adapters/event-log/kafka';
import { topicsOf } from '../kafka/installation/installation.ts';
import { OTHER_TARGET, SOURCE, TARGET } from '../suite/harness.ts';
import { batchStage, copyOf } from '../suite/stages.ts';

/**
 * A processor of two stages that follow each other, from the source to the target and from there to the other target,
 * with a catalog that says the partitions. To be killed.
 */
const [brokers = '', prefix = '', partitions = '', sessionMs = ''] = process.argv.slice(2);
const log = await openKafkaEventLog({
  connection: { brokers: brokers.split(','), clientId: 'tests' },
  prefix,
  topics: topicsOf(Number(partitions)),
  sessionTimeoutMs: Number(sessionMs),
  backoff: { firstMs: 5, capMs: 100 },
  metrics: NO_METRICS,
  logger: NO_LOGGER,
});
let changed = () => {};
const catalog = openLogCatalog({ log, logger: NO_LOGGER, onLayouts: () => changed() });
changed = log.followLayouts(catalog);
await catalog.catchUp(60_000);
await log.run(batchStage(async ({ entries }) => entries.map((entry) => copyOf(entry)), { maxEntries: 50 }));
await log.run(
  batchStage(async ({ entries }) => entries.map((entry) => copyOf(entry, OTHER_TARGET)), {
    name: 'second',
    reads: [{ topic: TARGET }],
    writes: [OTHER_TARGET],
  }),
);
process.stdout.write(`runs ${SOURCE}\n`);
