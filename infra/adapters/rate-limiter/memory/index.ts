export { type MemoryRateLimiterOptions, openMemoryRateLimiter } from './rate-limiter.ts';
