export { openRedisRateLimiter, type RedisRateLimiterOptions } from './rate-limiter.ts';
