export { openSqliteCounters, openStoredCounts } from './counters.ts';
