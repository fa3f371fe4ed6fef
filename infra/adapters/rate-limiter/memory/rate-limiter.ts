import { type Clock, type RateLimiter, TokenBuckets } from '@tributary/core';

export interface MemoryRateLimiterOptions {
  readonly perMinute: number;
  readonly clock: Clock;
}

/** A `RateLimiter` of this process alone: several gateways let several times as much pass. */
export function openMemoryRateLimiter({ perMinute, clock }: MemoryRateLimiterOptions): RateLimiter {
  const buckets = new TokenBuckets({ perSecond: perMinute / 60, burst: perMinute, clock });
  return {
    take: async (name) => buckets.take(name),
    close: async () => {},
  };
}
