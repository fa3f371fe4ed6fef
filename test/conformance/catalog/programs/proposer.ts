/**
 * A process that proposes, for the suite: `proposer.ts <harness module> <settings> <name> <facts>`. It
 * proposes contracts for pairs that its rivals propose too, and reports each verdict.
 */
import { NO_LOGGER } from '@tributary/core';
import { tell, told } from '../../../helpers/child.ts';
import { type CatalogHarness, contractFact } from '../suite/harness.ts';

export interface Told {
  readonly id: string;
  readonly pair: string;
  readonly applied: boolean;
}

if (process.argv[1] === import.meta.filename) {
  const [module = '', settings = '', name = '', facts = ''] = process.argv.slice(2);
  const { harness } = (await import(module)) as { harness: CatalogHarness };
  tell('ready');
  await told();
  const log = await harness.openLog(settings);
  const catalog = await harness.open(log, {
    logger: NO_LOGGER,
    staleAfterMs: 10_000,
    proposeTimeoutMs: 10_000,
  });
  for (let n = 0; n < Number(facts); n++) {
    const [id, pair] = [`${name}-${n}`, `pair-${n}`];
    const { applied } = await catalog.propose(contractFact(id, pair));
    tell({ id, pair, applied } satisfies Told);
  }
  await catalog.close();
  await log.close();
}
