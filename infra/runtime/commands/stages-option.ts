import { STAGE_NAMES } from '@tributary/processors/stages';
import { InvalidArgumentError } from 'commander';

export interface StagesOptions {
  readonly stages?: string;
}

/** The stages of `--stages a,b`; undefined, where the option is absent, means all. */
export function chosenStages({ stages }: StagesOptions): readonly string[] | undefined {
  if (stages === undefined) return undefined;
  const names = stages.split(',').map((name) => name.trim());
  const unknown = names.filter((name) => !STAGE_NAMES.some((known) => known === name));
  if (unknown.length > 0) {
    const quoted = unknown.map((name) => `"${name}"`).join(', ');
    throw new InvalidArgumentError(`--stages: there is no ${quoted}; there are ${STAGE_NAMES.join(', ')}`);
  }
  return names;
}
