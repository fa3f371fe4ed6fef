import { NO_LOGGER } from '@tributary/core';
import { openRedisCounters } from '@tributary/infra/adapters/counters/redis';
import { engines, freshPrefix } from '../../../helpers/engines.ts';
import { removeKeys } from '../../../helpers/redis.ts';
import type { CountersHarness } from '../suite/harness.ts';

interface Settings {
  readonly url: string;
  readonly prefix: string;
}

export const harness: CountersHarness = {
  name: 'Redis',
  module: import.meta.url,
  async create() {
    const settings: Settings = { url: engines()?.redisUrl ?? '', prefix: freshPrefix() };
    return {
      settings: JSON.stringify(settings),
      dispose: () => removeKeys(settings.url, settings.prefix),
    };
  },
  open: (settings, clock = Date.now) =>
    openRedisCounters({ ...(JSON.parse(settings) as Settings), clock, logger: NO_LOGGER }),
};
