export { openSqliteEventLog, SqliteEventLog, type SqliteEventLogOptions } from './event-log.ts';
export { StoredLog, type StoredPartition } from './stored-log.ts';
