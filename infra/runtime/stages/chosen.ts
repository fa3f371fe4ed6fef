import { STAGE_NAMES } from '@tributary/processors';
import { UsageError } from '../usage-error.ts';

/** The stages of `--stages a,b`; undefined, where nothing was said, means all. */
export function chosenStages(given: string | undefined): readonly string[] | undefined {
  if (given === undefined) return undefined;
  const names = given.split(',').map((name) => name.trim());
  const unknown = names.filter((name) => !STAGE_NAMES.some((known) => known === name));
  if (unknown.length > 0) {
    const quoted = unknown.map((name) => `"${name}"`).join(', ');
    throw new UsageError(`--stages: there is no ${quoted}; there are ${STAGE_NAMES.join(', ')}`);
  }
  return names;
}
