export type { RedisClient } from './client.ts';
export { RedisConnection } from './connection.ts';
export { checkKeyPrefix } from './key-prefix.ts';
export { Script } from './script.ts';
export { RedisSubscriptions } from './subscriptions.ts';
