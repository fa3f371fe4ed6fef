export { openSqliteHistory, type SqliteHistoryOptions } from './history.ts';
