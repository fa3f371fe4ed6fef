import { type Logger, type StoreMark, Unavailable } from '@tributary/core';
import { checkKeyPrefix, RedisConnection } from '../../redis/index.ts';

export interface RedisStoreMarkOptions {
  readonly url: string;
  /** Prefix of all keys, without braces. */
  readonly prefix: string;
  readonly logger: Logger;
}

/** A `StoreMark` in a key that never expires. */
export async function openRedisStoreMark({ url, prefix, logger }: RedisStoreMarkOptions): Promise<StoreMark> {
  const key = `${checkKeyPrefix(prefix)}installation`;
  const connection = await RedisConnection.open({ url, logger });
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
