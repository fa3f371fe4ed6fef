import { NO_LOGGER, Unavailable } from '@tributary/core';
import { openRedisRateLimiter } from '@tributary/infra';
import { describe, expect, it, onTestFinished } from 'vitest';
import { engines, freshPrefix } from '../../../helpers/engines.ts';
import { ownRedis } from '../../../helpers/own-redis.ts';
import { removeKeys } from '../../../helpers/redis.ts';
import { rateLimiterConformance } from '../suite/rate-limiter.conformance.ts';

const prefix = freshPrefix();
const url = () => engines()?.redisUrl ?? '';
/** Where Redis answers: a busy machine may take longer than the default, after which a limiter is Unavailable. */
const PATIENT = { timeoutMs: 10_000, logger: NO_LOGGER };

describe.skipIf(!engines())('on a real server', () => {
  rateLimiterConformance({
    name: 'Redis',
    open: (perMinute, scope) =>
      openRedisRateLimiter({ url: url(), prefix: `${prefix}${scope}.`, perMinute, ...PATIENT }),
    dispose: (scope) => removeKeys(url(), `${prefix}${scope}.`),
  });

  it('is shared by gateways', async () => {
    const options = { url: url(), prefix: freshPrefix(), perMinute: 10, ...PATIENT };
    const gateways = [await openRedisRateLimiter(options), await openRedisRateLimiter(options)];
    const waits = await Promise.all(Array.from({ length: 20 }, (_, n) => gateways[n % 2]?.take('a')));
    expect(waits.filter((wait) => wait === 0).length).toBe(10);
    await Promise.all(gateways.map((gateway) => gateway.close()));
    await removeKeys(options.url, options.prefix);
  });

  it('is Unavailable at once, not after long, while Redis is frozen, and back with it', async () => {
    const redis = await ownRedis();
    const limiter = await openRedisRateLimiter({
      url: redis.url,
      prefix: freshPrefix(),
      perMinute: 600,
      logger: NO_LOGGER,
    });
    onTestFinished(() => limiter.close());
    expect(await limiter.take('a')).toBe(0);
    await redis.pause();
    const askedAt = performance.now();
    await expect(limiter.take('a')).rejects.toThrow(Unavailable);
    expect(performance.now() - askedAt).toBeLessThan(2_000);
    await redis.resume();
    await expect.poll(() => limiter.take('a').catch(() => 'away')).toBe(0);
  });
});
