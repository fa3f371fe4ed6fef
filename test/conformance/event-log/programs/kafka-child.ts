import { setTimeout } from 'node:timers/promises';
import { tell } from '../../../helpers/child.ts';
import { openQuickly, topicsOf } from '../kafka/installation/installation.ts';
import { batchStage, copyOf } from '../suite/stages.ts';

/**
 * A member of the group of a test's stage, in a process of its own.
 * `kafka-child.ts <brokers> <prefix> <partitions> [silently]`; silently: without output records.
 */
const [brokers = '', prefix = '', partitions = '', silently] = process.argv.slice(2);

const log = await openQuickly({ at: brokers, prefix, topics: topicsOf(Number(partitions)) });
/** Reports each batch, and holds it for a moment. */
const holding = batchStage(async ({ entries }) => {
  tell({ holds: entries.map(({ value }) => value) });
  await setTimeout(200);
  return silently === undefined ? entries.map((entry) => copyOf(entry)) : [];
});
await (await log.run(holding)).ended;
