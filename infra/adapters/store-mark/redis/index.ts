export { openRedisStoreMark } from './store-mark.ts';
