/** A process that counts, for the suite: `applier.ts <harness module> <settings> <batches> <hour>`. */
import { Fenced } from '@tributary/core';
import { tell, told } from '../../../helpers/child.ts';
import { batch, increment, PARTITION, type VolumeCountersHarness } from '../suite/harness.ts';

/** Each batch counts every name once, so the counts give the number of batches applied. */
export const NAMES = ['a', 'b', 'c'];

async function apply(
  harness: VolumeCountersHarness,
  settings: string,
  batches: number,
  hour: number,
): Promise<void> {
  tell('ready');
  await told();
  const counters = await harness.open(settings);
  for (let done = 0; done < batches; ) {
    const from = await counters.applied(PARTITION);
    try {
      const increments = NAMES.map((name) => increment(name, 1, { hour }));
      await counters.apply(batch(from, increments, { keyUses: [{ keyId: 'k', at: from + 1 }] }));
      done++;
      tell(from + 1);
    } catch (error) {
      if (!(error instanceof Fenced)) throw error;
    }
  }
  await counters.close();
}

if (process.argv[1] === import.meta.filename) {
  const [module = '', settings = '', batches = '', hour = ''] = process.argv.slice(2);
  const { harness } = (await import(module)) as { harness: VolumeCountersHarness };
  await apply(harness, settings, Number(batches), Number(hour));
}
