import { NO_LOGGER } from '@tributary/core';
import { openRedisLiveTail } from '@tributary/infra';
import { engines, freshPrefix } from '../../../helpers/engines.ts';
import { removeKeys } from '../../../helpers/redis.ts';
import type { LiveTailHarness } from '../suite/harness.ts';

export const harness: LiveTailHarness = {
  name: 'Redis',
  async create(limits) {
    const [url, prefix] = [engines()?.redisUrl ?? '', freshPrefix()];
    const open = () => openRedisLiveTail({ url, prefix, logger: NO_LOGGER, limits });
    return { openWriter: open, openReader: open, dispose: () => removeKeys(url, prefix) };
  },
};
