import { isUuid } from '@tributary/core';
import { InvalidArgumentError } from 'commander';
import { type Environment, readCommandConfig } from '../runtime/config/config.ts';
import { untilAvailable } from '../runtime/process/await-engines.ts';
import { installationOf } from '../runtime/wiring/installation.ts';
import { openStoreMarks } from '../runtime/wiring/ports/stores.ts';
import { openLogAndCatalog, print, runCommand } from './command.ts';

export interface AdoptStoresOptions {
  readonly from: string;
}

/** Value of `--from` for stores without a mark and a new catalog. */
const UNMARKED = 'none';

/**
 * `tributary adopt-stores --from <id>|none`: gives the configured stores of the installation `id` to this one, with all
 * their data. Stores of other installations are left alone, with exit code 1. With `none`, a new catalog gets an
 * installation id although there is data already. The processes that use the stores must be stopped before.
 */
export async function adoptStores({ from }: AdoptStoresOptions, environment: Environment): Promise<number> {
  if (from !== UNMARKED && !isUuid(from))
    throw new InvalidArgumentError('--from must be the id of an installation, or none');
  return runCommand('adopt-stores', readCommandConfig(environment), async (tools) => {
    const { config, logger, cleanup, deadline } = tools;
    const { log, catalog } = await openLogAndCatalog(tools);
    const marks = await openStoreMarks(config, logger, (mark) => cleanup.use(mark));
    const id = await installationOf(config, { catalog, log, logger }, marks, deadline, from === UNMARKED);
    let code = 0;
    for (const mark of [marks.profiles, ...marks.others]) {
      const found = await untilAvailable(`reading the mark of ${mark.store}`, deadline, () => mark.read());
      const isAdopted = found === from.toLowerCase();
      if (isAdopted) await untilAvailable(`marking ${mark.store}`, deadline, () => mark.replace(id));
      const isOther = found !== undefined && found !== id && !isAdopted;
      if (isOther) code = 1;
      const state = isAdopted
        ? `was of ${found} and is of ${id} now`
        : isOther
          ? `is left: it is of ${found}`
          : found === undefined
            ? `has no mark: it is marked at the next start`
            : `is of ${id} already`;
      print(`${mark.store} ${state}`);
    }
    return code;
  });
}
