export { openSqliteDeduplicator, type SqliteDeduplicatorOptions } from './deduplicator.ts';
export { type KeptClaim, storedClaims } from './stored-claims.ts';
