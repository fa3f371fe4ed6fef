export { openSqliteEventLog, SqliteEventLog, type SqliteEventLogOptions } from './event-log.ts';
export { StoredLog, type StoredPartition } from './topic-group-reader.ts';
