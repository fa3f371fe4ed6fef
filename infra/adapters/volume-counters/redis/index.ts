export { openRedisVolumeCounters, type RedisVolumeCountersOptions } from './volume-counters.ts';
