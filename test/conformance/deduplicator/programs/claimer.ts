/**
 * A process that makes dedupe claims, for the suite: `claimer.ts <harness module> <settings> race|stream
 * <first offset>`.
 */
import { tell, told } from '../../../helpers/child.ts';
import { type DeduplicatorHarness, dedupeClaim } from '../suite/harness.ts';

export const RACE_IDS = 400;
export const RACE_BATCH = 20;
export const STREAM_BATCH = 50;

const [module = '', settings = '', mode = '', first = '0'] = process.argv.slice(2);

async function race(harness: DeduplicatorHarness, firstOffset: number): Promise<void> {
  tell('ready');
  await told();
  const deduplicator = await harness.open(settings);
  for (const round of [1, 2]) {
    const won: string[] = [];
    for (let start = 0; start < RACE_IDS; start += RACE_BATCH) {
      // Each process begins at another offset, so that batches overlap in every way.
      const claims = Array.from({ length: RACE_BATCH }, (_, i) => (start + i + firstOffset) % RACE_IDS).map(
        (id) => dedupeClaim(`race-${id}`, firstOffset + id),
      );
      const answers = await deduplicator.claim(claims);
      won.push(...claims.filter((_, i) => answers[i]).map(({ messageId }) => messageId));
    }
    tell({ round, won });
  }
  await deduplicator.close();
}

async function stream(harness: DeduplicatorHarness, firstOffset: number): Promise<void> {
  const deduplicator = await harness.open(settings);
  for (let offset = firstOffset; ; offset += STREAM_BATCH) {
    const claims = Array.from({ length: STREAM_BATCH }, (_, i) =>
      dedupeClaim(`stream-${offset + i}`, offset + i),
    );
    const answers = await deduplicator.claim(claims);
    if (answers.includes(false)) throw new Error('a fresh id was lost');
    tell(offset);
  }
}

if (process.argv[1] === import.meta.filename) {
  const { harness } = (await import(module)) as { harness: DeduplicatorHarness };
  await (mode === 'race' ? race : stream)(harness, Number(first));
}
