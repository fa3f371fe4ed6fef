export { openSqliteHistory, type SqliteHistoryOptions } from './history.ts';
export { dayOf, openStoredHistory } from './stored-history.ts';
