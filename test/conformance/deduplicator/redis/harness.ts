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

const open = ({ url, prefix, windowMs }: Settings) =>
  openRedisDeduplicator({ url, prefix, windowMs, logger: NO_LOGGER });

export const harness: DeduplicatorHarness = {
  name: 'Redis',
  module: import.meta.url,
  async create(windowMs) {
    const settings: Settings = { url: engines()?.redisUrl ?? '', prefix: freshPrefix(), windowMs };
    return {
      settings: JSON.stringify(settings),
      open: () => open(settings),
      // Redis expires keys by its own clock.
      elapse: (ms) => sleep(ms),
      dispose: () => removeKeys(settings.url, settings.prefix),
    };
  },
  open: (settings) => open(JSON.parse(settings) as Settings),
};
