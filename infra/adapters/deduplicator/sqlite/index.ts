export { openSqliteDeduplicator, type SqliteDeduplicatorOptions } from './deduplicator.ts';
export { type ExportedDedupeClaim, exportedDedupeClaims } from './exported-dedupe-claims.ts';
