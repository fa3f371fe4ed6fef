import { NO_LOGGER } from '@tributary/core';
import { openRedisLiveTail } from '@tributary/infra';
import { engines, freshPrefix } from '../../../helpers/engines.ts';
import { removeKeys } from '../../../helpers/redis.ts';
import type { LiveTailHarness } from '../suite/harness.ts';

/** The harness of the Redis at `url`, a server or a cluster; `cleaned` lists every primary. */
export function redisHarness(
  name: string,
  url: () => string,
  cleaned: () => readonly string[] = () => [url()],
): LiveTailHarness {
  return {
    name,
    async create(limits) {
      const prefix = freshPrefix();
      const open = () => openRedisLiveTail({ url: url(), prefix, logger: NO_LOGGER, limits });
      return {
        openWriter: open,
        openReader: open,
        async dispose() {
          await Promise.all(cleaned().map((primary) => removeKeys(primary, prefix)));
        },
      };
    },
  };
}

export const harness = redisHarness('Redis', () => engines()?.redisUrl ?? '');
