export { openSqliteEventLog, SqliteEventLog, type SqliteEventLogOptions } from './event-log.ts';
export { type StoredPartition, StoredLog } from './stored-log.ts';
