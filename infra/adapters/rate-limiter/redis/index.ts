import type { RateLimiter } from '@tributary/core';
import { checkKeyPrefix, RedisConnection, type RedisStoreOptions, Script } from '../../redis/index.ts';

export interface RedisRateLimiterOptions extends RedisStoreOptions {
  readonly perMinute: number;
}

/**
 * A token bucket per key. The value is the time at which the bucket is full again, by the server's clock, ms; the key expires
 * then. `ARGV`: the cost of a call and the capacity of a bucket, both in ms. Returns 0, or the time to wait, ms.
 */
const TAKE = new Script(`
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local cost, capacity = tonumber(ARGV[1]), tonumber(ARGV[2])
local missing = math.max(0, tonumber(redis.call('GET', KEYS[1]) or now) - now)
missing = math.min(missing, capacity)
local wait = missing + cost - capacity
if missing > 0 and wait > 0 then return tostring(wait) end
redis.call('SET', KEYS[1], string.format('%.3f', now + missing + cost), 'PX', math.ceil(missing + cost))
return '0'
`);

/** How long a call may take, ms, before it is `Unavailable`: each request waits for it. */
const DEFAULT_TIMEOUT_MS = 200;

/** A `RateLimiter` in Redis, shared by all gateways of an installation. A failover may lose recent calls. */
export async function openRedisRateLimiter(options: RedisRateLimiterOptions): Promise<RateLimiter> {
  const { perMinute, timeoutMs = DEFAULT_TIMEOUT_MS } = options;
  const prefix = checkKeyPrefix(options.prefix);
  const connection = await RedisConnection.open({ ...options, timeoutMs });
  const cost = String(60_000 / perMinute);
  return {
    take: (name) =>
      connection.call(async (client) =>
        Number(await TAKE.run(client, [`${prefix}rate:${name}`], [cost, '60000'])),
      ),
    close: () => connection.close(),
  };
}
