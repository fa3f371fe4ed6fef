import { setTimeout as sleep } from 'node:timers/promises';
import { NO_LOGGER } from '@tributary/core';
import { openRedisDeduplicator } from '@tributary/infra/adapters/deduplicator/redis';
import { engines, freshPrefix } from '../../../helpers/engines.ts';
import { removeKeys } from '../../../helpers/redis.ts';
import type { DeduplicatorHarness } from '../suite/harness.ts';

interface Settings {
  readonly url: string;
  readonly prefix: string;
  readonly windowMs: number;
}

/** The harness of the Redis at `url`, a server or a cluster; `cleaned` lists every primary. */
export function redisHarness(
  name: string,
  module: string,
  url: () => string,
  cleaned: () => readonly string[] = () => [url()],
): DeduplicatorHarness {
  const open = ({ url, prefix, windowMs }: Settings) =>
    openRedisDeduplicator({ url, prefix, windowMs, logger: NO_LOGGER });
  return {
    name,
    module,
    async create(windowMs) {
      const settings: Settings = { url: url(), prefix: freshPrefix(), windowMs };
      return {
        settings: JSON.stringify(settings),
        open: () => open(settings),
        // Redis expires keys by its own clock.
        elapse: (ms) => sleep(ms),
        async dispose() {
          await Promise.all(cleaned().map((primary) => removeKeys(primary, settings.prefix)));
        },
      };
    },
    open: (settings) => open(JSON.parse(settings) as Settings),
  };
}

export const harness = redisHarness('Redis', import.meta.url, () => engines()?.redisUrl ?? '');
