/**
 * A process that rewrites a catalog, for the suite: `rewriter.ts <harness module> <settings> <step>`. It
 * kills itself right after the step, or reports its result if there is no such step.
 */
import { NO_LOGGER } from '@tributary/core';
import { openLogCatalog } from '@tributary/infra/adapters/catalog/log';
import { tell, told } from '../../../helpers/child.ts';
import type { CatalogHarness } from '../suite/harness.ts';

if (process.argv[1] === import.meta.filename) {
  const [module = '', settings = '', last = ''] = process.argv.slice(2);
  const { harness } = (await import(module)) as { harness: CatalogHarness };
  const log = await harness.openLog(settings);
  const catalog = openLogCatalog({ log, logger: NO_LOGGER, fetchWaitMs: 50 });
  await catalog.catchUp(10_000);
  tell('ready');
  await told();
  const rewritten = await catalog.rewrite({
    by: 'operator:catalog',
    stages: [],
    stageTimeoutMs: 5_000,
    done: (step) => {
      if (step === last) process.kill(process.pid, 'SIGKILL');
    },
  });
  tell(rewritten);
  await catalog.close();
  await log.close();
}
