export { openRedisLiveTail, type RedisLiveTailOptions } from './live-tail.ts';
