export { importDedupeClaims } from './dedupe-claims.ts';
export { openRedisDeduplicator, type RedisDeduplicatorOptions } from './deduplicator.ts';
