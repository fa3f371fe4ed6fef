export { accessOf, type RedisAccess } from './address.ts';
export { checkKeyPrefix, type RedisClient, Script } from './client.ts';
export { RedisConnection } from './connection.ts';
export { RedisSubscriptions } from './subscriptions.ts';
