export { openSqliteDeduplicator, type SqliteDeduplicatorOptions } from './deduplicator.ts';
