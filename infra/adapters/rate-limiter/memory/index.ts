import { type Clock, type RateLimiter, TokenBuckets } from '@tributary/core';

export interface MemoryRateLimiterOptions {
  readonly perMinute: number;
  readonly clock: Clock;
}

/** A `RateLimiter` for one process: each gateway has its own limit. */
export function openMemoryRateLimiter({ perMinute, clock }: MemoryRateLimiterOptions): RateLimiter {
  const buckets = new TokenBuckets({ perSecond: perMinute / 60, burst: perMinute, clock });
  return {
    take: async (name) => buckets.take(name),
    close: async () => {},
  };
}
