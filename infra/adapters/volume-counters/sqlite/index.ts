export { openStoredVolume } from './stored-volume.ts';
export { openSqliteVolumeCounters, type SqliteVolumeCountersOptions } from './volume-counters.ts';
