import { NO_LOGGER } from '@tributary/core';
import { openRedisCounters } from '@tributary/infra/adapters/counters/redis';
import { engines, freshPrefix } from '../../../helpers/engines.ts';
import { removeKeys } from '../../../helpers/redis.ts';
import type { CountersHarness } from '../suite/harness.ts';

interface Settings {
  readonly url: string;
  readonly prefix: string;
}

/** The harness of the Redis at `url`, a server or a cluster; `cleaned` lists every primary. */
export function redisHarness(
  name: string,
  module: string,
  url: () => string,
  cleaned: () => readonly string[] = () => [url()],
): CountersHarness {
  return {
    name,
    module,
    async create() {
      const settings: Settings = { url: url(), prefix: freshPrefix() };
      return {
        settings: JSON.stringify(settings),
        async dispose() {
          await Promise.all(cleaned().map((primary) => removeKeys(primary, settings.prefix)));
        },
      };
    },
    open: (settings, clock = Date.now) =>
      openRedisCounters({ ...(JSON.parse(settings) as Settings), clock, logger: NO_LOGGER }),
  };
}

export const harness = redisHarness('Redis', import.meta.url, () => engines()?.redisUrl ?? '');
