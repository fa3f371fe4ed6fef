import type { CountDocument, CountedPartition } from '@tributary/core';
import type { RedisConnection } from '../../redis/index.ts';
import { CounterKeys, expiryOf } from './keys.ts';

/** Writes the documents of another store. May be repeated. */
export async function importDocuments(
  connection: RedisConnection,
  prefix: string,
  documents: readonly CountDocument[],
): Promise<void> {
  const keys = new CounterKeys(prefix);
  const uses = documents.filter(({ kind }) => kind === 'uses');
  const others = documents.filter(({ kind }) => kind !== 'uses');
  await connection.call(async (client) => {
    await Promise.all([
      ...uses.map(({ field, value }) => client.zadd(keys.uses, 'GT', value, field)),
      ...[...Map.groupBy(others, (document) => keys.hash(document))].flatMap(([hash, ofHash]) => [
        client.hset(hash, ...ofHash.flatMap(({ field, value }) => [field, value])),
        ...ofHash.slice(0, 1).map((first) => client.expireat(hash, expiryOf(first))),
      ]),
    ]);
  });
}

/** Sets the applied offsets, once all documents are there. */
export async function importOffsets(
  connection: RedisConnection,
  prefix: string,
  applied: readonly (CountedPartition & { readonly offset: number })[],
): Promise<void> {
  const keys = new CounterKeys(prefix);
  await connection.call((client) =>
    Promise.all(applied.map((partition) => client.set(keys.applied(partition), partition.offset))),
  );
}

/** Whether anything was counted under the prefix, by any release. */
export async function holdsCounts(connection: RedisConnection, prefix: string): Promise<boolean> {
  const keys = [new CounterKeys(prefix).version, `${prefix}v:partitions`];
  const found = await connection.call((client) => Promise.all(keys.map((key) => client.exists(key))));
  return found.some((exists) => exists > 0);
}
