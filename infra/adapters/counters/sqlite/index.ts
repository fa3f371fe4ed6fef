export { openSqliteCounters } from './counters.ts';
export { openStoredCounts } from './stored-counts.ts';
