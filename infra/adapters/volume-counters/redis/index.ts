export { compareVolume, holdsVolume, importVolume } from './import-volume.ts';
export { openRedisVolumeCounters, type RedisVolumeCountersOptions } from './volume-counters.ts';
