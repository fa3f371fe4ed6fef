export { openSqliteEventLog, SqliteEventLog, type SqliteEventLogOptions } from './event-log.ts';
