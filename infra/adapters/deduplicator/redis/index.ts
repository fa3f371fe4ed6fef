export { openRedisDeduplicator, type RedisDeduplicatorOptions } from './deduplicator.ts';
export { importClaims, missingClaims } from './import-claims.ts';
