/** A process that counts, for the suite: `applier.ts <harness module> <settings> <batches> <hour>`. */
import { Fenced } from '@tributary/core';
import { tell, told } from '../../../helpers/child.ts';
import { batch, type CountersHarness, increment, PARTITION } from '../suite/harness.ts';

/** Each batch counts every name once, so the counts give the number of batches applied. */
export const NAMES = ['a', 'b', 'c'];

async function apply(
  harness: CountersHarness,
  settings: string,
  batches: number,
  minute: number,
): Promise<void> {
  tell('ready');
  await told();
  const store = await harness.open(settings);
  for (let done = 0; done < batches; ) {
    const from = await store.applied(PARTITION);
    try {
      await store.apply(
        batch(
          from,
          NAMES.map((name) => increment({ name, minute })),
          { keyUses: [{ keyId: 'k', at: from + 1 }] },
        ),
      );
      done++;
      tell(from + 1);
    } catch (error) {
      if (!(error instanceof Fenced)) throw error;
    }
  }
  await store.close();
}

if (process.argv[1] === import.meta.filename) {
  const [module = '', settings = '', batches = '', minute = ''] = process.argv.slice(2);
  const { harness } = (await import(module)) as { harness: CountersHarness };
  await apply(harness, settings, Number(batches), Number(minute));
}
