import { type StoreMark, Unavailable } from '@tributary/core';
import { checkKeyPrefix, RedisConnection, type RedisStoreOptions } from '../../redis/index.ts';

/** A `StoreMark` in a key that never expires. */
export async function openRedisStoreMark(options: RedisStoreOptions): Promise<StoreMark> {
  const key = `${checkKeyPrefix(options.prefix)}installation`;
  const connection = await RedisConnection.open(options);
  const read = async () => (await connection.call((client) => client.get(key))) ?? undefined;
  return {
    store: `Redis (key ${key})`,
    read,
    async claim(installation) {
      await connection.call((client) => client.set(key, installation, 'NX'));
      const id = await read();
      if (id === undefined) throw new Unavailable(`Redis lost ${key} immediately after the write`);
      return id;
    },
    async replace(installation) {
      await connection.call((client) => client.set(key, installation));
    },
    close: () => connection.close(),
  };
}
