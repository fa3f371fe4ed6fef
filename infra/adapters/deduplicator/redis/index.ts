export { openRedisDeduplicator, type RedisDeduplicatorOptions } from './deduplicator.ts';
export { importDedupeClaims, missingDedupeClaims } from './import-dedupe-claims.ts';
