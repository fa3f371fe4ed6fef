export { openSqliteVolumeCounters, type SqliteVolumeCountersOptions } from './volume-counters.ts';
export { openStoredVolume } from './stored-volume.ts';
