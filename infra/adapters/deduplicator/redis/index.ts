export { openRedisDeduplicator, type RedisDeduplicatorOptions } from './deduplicator.ts';
export { importDedupeClaims } from './import-dedupe-claims.ts';
