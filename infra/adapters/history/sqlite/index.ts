export { dayOf, openSqliteHistory, openStoredHistory, type SqliteHistoryOptions } from './history.ts';
