import type { Logger, RateLimiter } from '@tributary/core';
import { openMemoryRateLimiter } from '../../../adapters/rate-limiter/memory/index.ts';
import type { Config } from '../../config/settings.ts';

/** The limiter of calls: in Redis where it is named, which need not answer, else in this process; none without a limit. */
export async function openRateLimiter(config: Config, logger: Logger): Promise<RateLimiter | undefined> {
  const { callRate, redisUrl: url, prefix } = config;
  if (callRate === undefined) return undefined;
  const perMinute = callRate * 60;
  if (url === undefined) return openMemoryRateLimiter({ perMinute, clock: () => performance.now() });
  const { openRedisRateLimiter } = await import('../../../adapters/rate-limiter/redis/index.ts');
  return openRedisRateLimiter({ url, prefix, perMinute, logger });
}
