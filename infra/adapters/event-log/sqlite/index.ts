export { openSqliteEventLog, SqliteEventLog, type SqliteEventLogOptions } from './event-log.ts';
export { LayoutMismatch } from './layout.ts';
