export { openSqliteVolumeCounters, type SqliteVolumeCountersOptions } from './volume-counters.ts';
