import { join } from 'node:path';
import type { Config } from '../config/settings.ts';

/** Where the embedded adapters keep their files. */
export function embeddedFolders({ dataFolder }: Pick<Config, 'dataFolder'>) {
  return {
    log: join(dataFolder, 'log'),
    dedupe: join(dataFolder, 'dedupe'),
    reevaluated: join(dataFolder, 'dedupe', 'reevaluated'),
    volume: join(dataFolder, 'volume'),
    history: join(dataFolder, 'history'),
    health: join(dataFolder, 'health'),
    profiles: join(dataFolder, 'profiles'),
  } as const;
}
