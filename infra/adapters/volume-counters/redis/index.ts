export { openRedisVolumeCounters, type RedisVolumeCountersOptions } from './volume-counters.ts';
export { compareVolume, holdsVolume, importVolume } from './import-volume.ts';
