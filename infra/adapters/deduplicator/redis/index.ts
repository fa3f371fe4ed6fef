export { openRedisDeduplicator, type RedisDeduplicatorOptions } from './deduplicator.ts';
